"""Reading the config.json of each network but the UNet: values checked, and completed by defaults.

Nothing here imports flax: a start whose programs are all kept builds no network.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import jax
import numpy as np
import numpy.typing as npt

from sdjax_engine.errors import UnreadableCheckpoint, quoted
from sdjax_engine.models.activations import activation

Config = Mapping[str, Any]
MOST = 2**31 - 1
MOST_BLOCKS = 16  # of a UNet or an autoencoder; known networks have four
MOST_LAYERS = 256
"""Layers of one network in all: SDXL's UNet has 70 transformer blocks and 17 residual blocks."""


def settle(
    config: Config,
    *,
    model: str,
    defaults: Config,
    supported: Mapping[str, tuple[Any, ...]],
    unused: frozenset[str] = frozenset(),
    strict: bool = True,
) -> dict[str, Any]:
    """Return the values of the keys of `defaults`: from `config`, or else from `defaults`.

    `supported` lists the only values that a key may have. Keys in `unused` change nothing at inference. With
    `strict` any other key must be off (null or false), so that no feature is left out silently.
    Raises UnreadableCheckpoint that names every unsupported value.
    """
    values = {key: as_tuple(value) for key, value in config.items() if not key.startswith("_")}
    wrong = [
        f"{key}={quoted(value)}"
        for key, value in values.items()
        if not is_supported(key, value, defaults=defaults, supported=supported, unused=unused, strict=strict)
    ]
    refuse(model, wrong)
    return dict(defaults) | {key: value for key, value in values.items() if key in defaults}


def refuse(model: str, wrong: Sequence[str]) -> None:
    """Raise UnreadableCheckpoint that names the configuration values in `wrong`, if there are any."""
    if wrong:
        raise UnreadableCheckpoint(f"{model} with {', '.join(wrong)} is not supported.")


def is_supported(
    key: str,
    value: object,
    *,
    defaults: Config,
    supported: Mapping[str, tuple[Any, ...]],
    unused: frozenset[str],
    strict: bool,
) -> bool:
    """Whether a network can be built with this value of this key."""
    if key in defaults and not is_of_size(value):
        return False
    if key in supported:
        each = value if isinstance(value, tuple) else (value,)
        return all(any(one == choice for choice in supported[key]) for one in each)
    return key in defaults or key in unused or not strict or value is None or value is False


def is_of_size(value: object) -> bool:
    """Whether all numbers in a value, nested lists included, are within the limits of a network."""
    if isinstance(value, tuple):
        return all(map(is_of_size, value))
    return not isinstance(value, int | float) or abs(value) <= MOST


def per_block(value: Any, count: int) -> tuple[Any, ...]:
    """Return one value for each of `count` blocks: `value` itself if it is a list, else `value` repeated."""
    return value if isinstance(value, tuple) else (value,) * count


def check_layers(model: str, *, key: str, value: Any) -> None:
    """Raise UnreadableCheckpoint if a number of layers in `value`, nested lists included, is too large.

    Call it before anything is built: to describe a network of a million layers takes hours.
    """
    for each in value if isinstance(value, tuple) else (value,):
        if isinstance(each, tuple):
            check_layers(model, key=key, value=each)
        elif isinstance(each, int | float) and each > MOST_LAYERS:
            raise UnreadableCheckpoint(
                f"{model} with {key}={quoted(value)} is not supported: {MOST_LAYERS} at most."
            )


def check_lengths(model: str, *, count: int, lists: Config) -> None:
    """Raise UnreadableCheckpoint that names the lists whose length is not the number of blocks, `count`."""
    if count > MOST_BLOCKS:
        raise UnreadableCheckpoint(f"{model} with {count} blocks is not supported: {MOST_BLOCKS} at most.")
    wrong = [
        f"{key}={quoted(value)}" for key, value in lists.items() if len(per_block(value, count)) != count
    ]
    if wrong:
        raise UnreadableCheckpoint(f"{model} has {count} blocks, which does not fit {', '.join(wrong)}.")


def check_divisible(model: str, *, widths: tuple[int, ...], parts: tuple[int, ...], what: str) -> None:
    """Raise UnreadableCheckpoint for a width that is no multiple of its number of groups or heads."""
    for width, count in zip(widths, parts, strict=True):
        if count < 1 or width % count:
            raise UnreadableCheckpoint(f"{model} cannot split {width} channels into {count} {what}.")


def check_encoder(model: str, values: Config) -> None:
    """Raise UnreadableCheckpoint for values that no transformer encoder can have."""
    check_positive(model, values, keys=("layer_norm_eps",))
    check_layers(model, key="num_hidden_layers", value=values["num_hidden_layers"])
    activation(values["hidden_act"], model=model)
    check_divisible(
        model, widths=(values["hidden_size"],), parts=(values["num_attention_heads"],), what="heads"
    )


def as_tuple(value: Any) -> Any:
    return tuple(as_tuple(each) for each in value) if isinstance(value, list) else value


TEXT_ENCODER = "CLIPTextModel"
PROJECTED_TEXT_ENCODER = "CLIPTextModelWithProjection"
UNKNOWN_END = 2
TEXT_DEFAULTS: Config = {
    "vocab_size": 49408,
    "hidden_size": 512,
    "intermediate_size": 2048,
    "num_hidden_layers": 12,
    "num_attention_heads": 8,
    "max_position_embeddings": 77,
    "hidden_act": "quick_gelu",
    "layer_norm_eps": 1e-5,
    "eos_token_id": 49407,
    "projection_dim": 512,
}
TEXT_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "model_type": ("clip_text_model",),
    "use_attention_mask": (None, False),
}


def settle_text_config(config: Config) -> dict[str, Any]:
    """Return the values that a `CLIPTextModel` is built from; raises UnreadableCheckpoint.

    Other keys belong to the tokenizer or to the reference's library; they are ignored.
    """
    return settle_as(TEXT_ENCODER, config)


def settle_projected_text_config(config: Config) -> dict[str, Any]:
    """Return the values that a `CLIPTextModelWithProjection` is built from; raises UnreadableCheckpoint."""
    return settle_as(PROJECTED_TEXT_ENCODER, config)


def settle_as(model: str, config: Config) -> dict[str, Any]:
    supported = TEXT_SUPPORTED | {"architectures": (model,)}
    values = settle(config, model=model, defaults=TEXT_DEFAULTS, supported=supported, strict=False)
    refuse(
        model,
        [] if type(values["eos_token_id"]) is int else [f"eos_token_id={quoted(values['eos_token_id'])}"],
    )
    check_encoder(model, values)
    return values


LANGUAGE_MODEL = "Qwen3Model"
ROPE = "rope_parameters"
QWEN3_DEFAULTS: Config = {
    "vocab_size": 151936,
    "hidden_size": 4096,
    "intermediate_size": 22016,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "head_dim": 128,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "depth": None,
}
QWEN3_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "architectures": (None, LANGUAGE_MODEL, "Qwen3ForCausalLM"),
    "model_type": ("qwen3",),
    "attention_bias": (False,),
    "layer_types": (None, "full_attention"),
    "hidden_act": ("silu",),
    "quantization_config": (None,),
    "rope_scaling": (None,),
    "use_sliding_window": (False,),
}


def settle_qwen3_config(config: Config) -> dict[str, Any]:
    """Return the values that a `Qwen3Model` is built from; raises UnreadableCheckpoint.

    `depth` is the number of layers that are built: by default all but the last. New files have `rope_theta`
    within `rope_parameters`.
    """
    rope = config.get(ROPE) or {}
    if not isinstance(rope, Mapping):
        refuse(LANGUAGE_MODEL, [f"{ROPE}={quoted(rope)}"])
    values = settle(
        {"rope_theta": rope["rope_theta"], **config} if "rope_theta" in rope else config,
        model=LANGUAGE_MODEL,
        defaults=QWEN3_DEFAULTS,
        supported=QWEN3_SUPPORTED,
        strict=False,
    )
    refuse(
        LANGUAGE_MODEL, [f"{ROPE}={quoted(rope)}"] if rope.get("rope_type", "default") != "default" else []
    )
    values["depth"] = values["num_hidden_layers"] - 1 if values["depth"] is None else values["depth"]
    unused = {"rms_norm_eps", "rope_theta", "hidden_act"}
    refuse(
        LANGUAGE_MODEL,
        [
            f"{key}={quoted(value)}"
            for key, value in values.items()
            if key not in unused and not is_count(value)
        ],
    )
    check_positive(LANGUAGE_MODEL, values, keys=("rope_theta", "rms_norm_eps"))
    check_layers(LANGUAGE_MODEL, key="num_hidden_layers", value=values["num_hidden_layers"])
    if values["depth"] > values["num_hidden_layers"]:
        refuse(LANGUAGE_MODEL, [f"depth={values['depth']}"])
    heads = (values["num_attention_heads"],)
    check_divisible(LANGUAGE_MODEL, widths=heads, parts=(values["num_key_value_heads"],), what="heads")
    check_divisible(LANGUAGE_MODEL, widths=(values["head_dim"],), parts=(2,), what="halves")
    return values


SIDE_BY_SIDE = (9, 18, 27)
"""The layers of a `Qwen3States` whose states are its encoding."""


def settle_qwen3_states_config(config: Config) -> dict[str, Any]:
    """Return the values that a `Qwen3States` is built from; raises UnreadableCheckpoint.

    The reference norms the states after the last layer, so that there must be one more.
    """
    values = settle_qwen3_config({**config, "depth": None})
    if values["num_hidden_layers"] <= SIDE_BY_SIDE[-1]:
        refuse(LANGUAGE_MODEL, [f"num_hidden_layers={values['num_hidden_layers']}"])
    return values | {"depth": SIDE_BY_SIDE[-1]}


OF_LAYER = re.compile(r"layers\.(\d+)\..*")


def current_qwen3_name(name: str, values: Config) -> str | None:
    """Return the present name of a tensor of a `Qwen3Model` of this depth, or None if it is not used."""
    name = name.removeprefix("model.")
    layer = OF_LAYER.fullmatch(name)
    unused = name in {"lm_head.weight", "norm.weight"} or (layer and int(layer[1]) >= values["depth"])
    return None if unused else name


Z_IMAGE = "ZImageTransformer2DModel"
PATCH = 2
Z_IMAGE_DEFAULTS: Config = {
    "in_channels": 16,
    "dim": 3840,
    "n_layers": 30,
    "n_refiner_layers": 2,
    "n_heads": 30,
    "n_kv_heads": 30,
    "norm_eps": 1e-5,
    "cap_feat_dim": 2560,
    "rope_theta": 256.0,
    "t_scale": 1000.0,
    "axes_dims": (32, 48, 48),
}
Z_IMAGE_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "all_patch_size": (PATCH,),
    "all_f_patch_size": (1,),
    "qk_norm": (True,),
}
Z_IMAGE_UNUSED = frozenset({"axes_lens"})  # the size of the reference's table of angles
Z_IMAGE_COUNTS = ("in_channels", "dim", "n_layers", "n_refiner_layers", "n_heads", "cap_feat_dim")


def settle_z_image_config(config: Config) -> dict[str, Any]:
    """Return the values that a `ZImageTransformer2DModel` is built from; raises UnreadableCheckpoint."""
    values = settle(
        config,
        model=Z_IMAGE,
        defaults=Z_IMAGE_DEFAULTS,
        supported=Z_IMAGE_SUPPORTED,
        unused=Z_IMAGE_UNUSED,
    )
    refuse(Z_IMAGE, [f"{key}={quoted(values[key])}" for key in Z_IMAGE_COUNTS if not is_count(values[key])])
    check_positive(Z_IMAGE, values, keys=("rope_theta", "t_scale", "norm_eps"))
    check_layers(Z_IMAGE, key="n_layers", value=(values["n_layers"], values["n_refiner_layers"]))
    check_divisible(Z_IMAGE, widths=(values["dim"],), parts=(values["n_heads"],), what="heads")
    if values["n_kv_heads"] != values["n_heads"]:
        refuse(Z_IMAGE, [f"n_kv_heads={quoted(values['n_kv_heads'])}"])
    axes = values["axes_dims"]
    fits = isinstance(axes, tuple) and all(is_count(each) and each % 2 == 0 for each in axes)
    if not fits or len(axes) != 3 or sum(axes) != values["dim"] // values["n_heads"]:
        refuse(Z_IMAGE, [f"axes_dims={quoted(axes)}"])
    return values


SAFETY_CHECKER = "StableDiffusionSafetyChecker"
CONCEPTS, SPECIAL_CARE = 17, 3
Numbers = TypeVar("Numbers", jax.Array, npt.NDArray[np.float32])
DIGITS = 3  # the reference decides on rounded scores
CHECKER_DEFAULTS: Config = {"projection_dim": 512}
VISION_DEFAULTS: Config = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "image_size": 224,
    "patch_size": 32,
    "hidden_act": "quick_gelu",
    "layer_norm_eps": 1e-5,
}


def settle_safety_checker_config(config: Config) -> dict[str, Any]:
    """Return the values that the network is built from: `projection_dim` and the checked `vision_config`.

    Old files repeat `vision_config` as `vision_config_dict`; `vision_config_dict` takes precedence. Raises
    UnreadableCheckpoint for unsupported values.
    """
    supported = {"architectures": (SAFETY_CHECKER,), "model_type": ("clip",)}
    values = settle(
        config, model=SAFETY_CHECKER, defaults=CHECKER_DEFAULTS, supported=supported, strict=False
    )
    vision = config.get("vision_config_dict") or config.get("vision_config") or {}
    return values | {"vision_config": settle_vision_config(vision)}


def settle_vision_config(config: Config) -> dict[str, Any]:
    return settle_vision(config, SAFETY_CHECKER, VISION_DEFAULTS)


IMAGE_ENCODER = "CLIPVisionModelWithProjection"
MOST_SIDE = 1024  # pixels of a picture, which is made of any that people send


def settle_image_encoder_config(config: Config) -> dict[str, Any]:
    """Return the values that the network is built from; raises UnreadableCheckpoint."""
    values = settle_vision(config, IMAGE_ENCODER, {**VISION_DEFAULTS, **CHECKER_DEFAULTS})
    sides = (values["patch_size"], values["image_size"], MOST_SIDE)
    refuse(IMAGE_ENCODER, [] if 0 < sides[0] <= sides[1] <= sides[2] else [f"image_size={sides[1]}"])
    check_divisible(
        IMAGE_ENCODER, widths=(values["image_size"],), parts=(values["patch_size"],), what="patches"
    )
    return values


def settle_vision(config: Config, model: str, defaults: Config) -> dict[str, Any]:
    supported = {"model_type": ("clip_vision_model",), "num_channels": (3,)}
    values = settle(config, model=model, defaults=defaults, supported=supported, strict=False)
    sizes = ("image_size", "patch_size")
    refuse(model, [f"{key}={quoted(values[key])}" for key in sizes if type(values[key]) is not int])
    check_encoder(model, values)
    return values


def is_found(scores: Numbers) -> Any:
    """Whether each score means that its concept is in the picture: positive after rounding to `DIGITS`."""
    return scores.round(DIGITS) > 0


AUTOENCODER = "AutoencoderKL"
AUTOENCODER_DEFAULTS: Config = {
    "act_fn": "silu",
    "block_out_channels": (64,),
    "down_block_types": ("DownEncoderBlock2D",),
    "force_upcast": True,
    "in_channels": 3,
    "latent_channels": 4,
    "latents_mean": None,
    "latents_std": None,
    "layers_per_block": 1,
    "mid_block_add_attention": True,
    "norm_num_groups": 32,
    "out_channels": 3,
    "sample_size": 32,
    "scaling_factor": 0.18215,
    "shift_factor": None,
    "up_block_types": ("UpDecoderBlock2D",),
    "use_post_quant_conv": True,
    "use_quant_conv": True,
}
AUTOENCODER_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "down_block_types": ("DownEncoderBlock2D",),
    "up_block_types": ("UpDecoderBlock2D",),
    "in_channels": (3,),
    "out_channels": (3,),
}


def settle_vae_config(config: Config) -> dict[str, Any]:
    """Return the values that the network is built from; raises UnreadableCheckpoint."""
    values = settle(config, model=AUTOENCODER, defaults=AUTOENCODER_DEFAULTS, supported=AUTOENCODER_SUPPORTED)
    lists = {key: values[key] for key in ("down_block_types", "up_block_types")}
    check_lengths(AUTOENCODER, count=len(values["block_out_channels"]), lists=lists)
    check_layers(AUTOENCODER, key="layers_per_block", value=values["layers_per_block"])
    check_positive(AUTOENCODER, values, keys=("scaling_factor",))
    if type(values["shift_factor"] or 0.0) not in (int, float):
        refuse(AUTOENCODER, [f"shift_factor={quoted(values['shift_factor'])}"])
    spread = {key: values[key] for key in ("latents_mean", "latents_std")}
    if set(spread.values()) != {None}:
        channels = values["latent_channels"]
        wrong = [key for key, each in spread.items() if not are_numbers(each, channels)]
        refuse(AUTOENCODER, [f"{key}={quoted(spread[key])}" for key in wrong])
        if not all(each > 0 for each in spread["latents_std"]):
            refuse(AUTOENCODER, [f"latents_std={quoted(spread['latents_std'])}"])
    return values


TINY_AUTOENCODER = "AutoencoderTiny"
WIDTHS, BLOCKS = "decoder_block_out_channels", "num_decoder_blocks"
TINY_DEFAULTS: Config = {
    "act_fn": "relu",
    WIDTHS: (64, 64, 64, 64),
    "latent_channels": 4,
    BLOCKS: (3, 3, 3, 1),
    "out_channels": 3,
    "scaling_factor": 1.0,
    "upsample_fn": "nearest",
    "upsampling_scaling_factor": 2,
}
TINY_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "out_channels": (3,),
    "shift_factor": (None, 0),
    "upsample_fn": ("nearest",),
    "upsampling_scaling_factor": (2,),
}
TINY_UNUSED = frozenset(
    {
        "block_out_channels",
        "encoder_block_out_channels",
        "force_upcast",
        "in_channels",
        "latent_magnitude",
        "latent_shift",
        "num_encoder_blocks",
    }
)


def settle_autoencoder_tiny_config(config: Config) -> dict[str, Any]:
    """Return the values that the decoder is built from; raises UnreadableCheckpoint."""
    values = settle(
        config, model=TINY_AUTOENCODER, defaults=TINY_DEFAULTS, supported=TINY_SUPPORTED, unused=TINY_UNUSED
    )
    lists = (WIDTHS, BLOCKS)
    refuse(
        TINY_AUTOENCODER,
        [f"{key}={quoted(values[key])}" for key in lists if not isinstance(values[key], tuple)],
    )
    check_lengths(TINY_AUTOENCODER, count=len(values[WIDTHS]), lists={BLOCKS: values[BLOCKS]})
    check_layers(TINY_AUTOENCODER, key=BLOCKS, value=values[BLOCKS])
    if len(set(values[WIDTHS])) != 1:  # no layer of the reference changes the width
        refuse(TINY_AUTOENCODER, [f"{WIDTHS}={quoted(values[WIDTHS])}"])
    if not values["scaling_factor"] > 0:
        refuse(TINY_AUTOENCODER, [f"scaling_factor={quoted(values['scaling_factor'])}"])
    return values


def factor_of(values: Config) -> int:
    """Return the pixels of a picture per latent pixel, along one side."""
    return int(2 ** (len(values[WIDTHS]) - 1))


CLASSIFIER = "ViTForImageClassification"
MOST_LABELS = 1000
LABELS = "id2label"
CLASSIFIER_DEFAULTS: Config = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "image_size": 224,
    "patch_size": 16,
    "qkv_bias": True,
    LABELS: {},
}
CLASSIFIER_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "architectures": (CLASSIFIER,),
    "model_type": ("vit",),
    "num_channels": (3,),
    "problem_type": (None, "single_label_classification"),
    "qkv_bias": (True, False),
}


def settle_vit_config(config: Config) -> dict[str, Any]:
    """Return the values that the network is built from; raises UnreadableCheckpoint."""
    values = settle(
        config, model=CLASSIFIER, defaults=CLASSIFIER_DEFAULTS, supported=CLASSIFIER_SUPPORTED, strict=False
    )
    sizes = ("image_size", "patch_size", "hidden_size", "intermediate_size", "num_attention_heads")
    refuse(CLASSIFIER, [f"{key}={quoted(values[key])}" for key in sizes if not is_count(values[key])])
    if not is_count(values["num_hidden_layers"]):
        refuse(CLASSIFIER, [f"num_hidden_layers={quoted(values['num_hidden_layers'])}"])
    check_encoder(CLASSIFIER, values)
    check_divisible(CLASSIFIER, widths=(values["image_size"],), parts=(values["patch_size"],), what="patches")
    if not has_labels(values[LABELS]):
        refuse(CLASSIFIER, [f"{LABELS}={quoted(values[LABELS])}"])
    return values


def labels_of(values: Config) -> tuple[str, ...]:
    """Return the labels of a settled configuration, in the order of the network's outputs."""
    named = {int(number): str(label) for number, label in values[LABELS].items()}
    return tuple(named[number] for number in range(len(named)))


def check_positive(model: str, values: Config, *, keys: Sequence[str]) -> None:
    """Raise UnreadableCheckpoint that names those of the keys whose values are no numbers above 0."""
    wrong = [key for key in keys if type(values[key]) not in (int, float) or not values[key] > 0]
    refuse(model, [f"{key}={quoted(values[key])}" for key in wrong])


def are_numbers(value: object, count: int) -> bool:
    return (
        isinstance(value, tuple) and len(value) == count and all(type(each) in (int, float) for each in value)
    )


def is_count(value: object) -> bool:
    return type(value) is int and value > 0


def has_labels(named: object) -> bool:
    """Whether each of 2 to 1000 outputs has a label, and no two have the same."""
    if not isinstance(named, Mapping) or not 2 <= len(named) <= MOST_LABELS:
        return False
    numbers = {str(number) for number in named}
    return numbers == {str(number) for number in range(len(named))} and len(
        {str(label) for label in named.values()}
    ) == len(named)
