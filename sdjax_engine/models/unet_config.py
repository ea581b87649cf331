"""Reading the UNet's config.json: one value for each block, and an error for unsupported values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sdjax_engine.errors import quoted
from sdjax_engine.models.config import (
    Config,
    check_divisible,
    check_layers,
    check_lengths,
    check_positive,
    per_block,
    refuse,
    settle,
)

NAME = "UNet2DConditionModel"
TIME_IDS = 6  # the original size, the crop's corner and the target size: two numbers each
DEFAULTS: Config = {
    "act_fn": "silu",
    "addition_embed_type": None,
    "addition_time_embed_dim": None,
    "attention_head_dim": 8,
    "block_out_channels": (320, 640, 1280, 1280),
    "center_input_sample": False,
    "conv_in_kernel": 3,
    "conv_out_kernel": 3,
    "cross_attention_dim": 1280,
    "down_block_types": (*("CrossAttnDownBlock2D",) * 3, "DownBlock2D"),
    "downsample_padding": 1,
    "flip_sin_to_cos": True,
    "freq_shift": 0,
    "in_channels": 4,
    "layers_per_block": 2,
    "mid_block_type": "UNetMidBlock2DCrossAttn",
    "norm_eps": 1e-5,
    "norm_num_groups": 32,
    "num_attention_heads": None,
    "only_cross_attention": False,
    "out_channels": 4,
    "projection_class_embeddings_input_dim": None,
    "reverse_transformer_layers_per_block": None,
    "sample_size": None,
    "time_cond_proj_dim": None,
    "time_embedding_dim": None,
    "transformer_layers_per_block": 1,
    "up_block_types": ("UpBlock2D", *("CrossAttnUpBlock2D",) * 3),
}
SUPPORTED: dict[str, tuple[Any, ...]] = {
    "addition_embed_type": (None, "text_time"),
    "attention_type": ("default",),
    "conv_in_kernel": (1, 3, 5, 7),
    "conv_out_kernel": (1, 3, 5, 7),
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "downsample_padding": (0, 1),
    "mid_block_scale_factor": (1,),
    "mid_block_type": (None, "UNetMidBlock2DCrossAttn", "UNetMidBlock2D"),
    "resnet_out_scale_factor": (None, 1),
    "resnet_time_scale_shift": ("default",),
    "time_embedding_type": ("positional",),
    "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
}
UNUSED = frozenset(
    {
        "addition_embed_type_num_heads",  # only read with an unsupported addition_embed_type
        "dropout",  # only used in training
        "mid_block_only_cross_attention",  # only read by an unsupported mid_block_type
        "upcast_attention",  # scores and softmax are always float32
        "use_linear_projection",  # both are the same map on channels-last arrays
    }
)
INTEGERS = ("num_attention_heads", "cross_attention_dim", "layers_per_block")
KEYS = ".to_k.kernel"
DEPTHS = ("layers_per_block", "transformer_layers_per_block", "reverse_transformer_layers_per_block")
PER_BLOCK = (*INTEGERS, "transformer_layers_per_block", "only_cross_attention")


def settle_unet_config(config: Config, *, model: str = NAME) -> dict[str, Any]:
    """Return the values that the network is built from, with one value per block where blocks may differ.

    If `num_attention_heads` is not given, `attention_head_dim` is the number of heads: an old misnomer in the
    reference. `model` names the network in messages. Raises UnreadableCheckpoint for unsupported values.
    """
    values = settle(config, model=model, defaults=DEFAULTS, supported=SUPPORTED, unused=UNUSED)
    count = len(values["block_out_channels"])
    values["num_attention_heads"] = values["num_attention_heads"] or values["attention_head_dim"]
    lists = {key: values[key] for key in (*PER_BLOCK, "down_block_types", "up_block_types")}
    if values["reverse_transformer_layers_per_block"] is not None:
        lists |= {"reverse_transformer_layers_per_block": values["reverse_transformer_layers_per_block"]}
    check_lengths(model, count=count, lists=lists)
    check_positive(model, values, keys=("norm_eps",))
    refuse(
        model,
        [] if type(values["freq_shift"]) in (int, float) else [f"freq_shift={quoted(values['freq_shift'])}"],
    )
    for key in DEPTHS:
        check_layers(model, key=key, value=values[key])
    values |= {key: per_block(values[key], count) for key in PER_BLOCK}
    refuse(model, [f"{key}={quoted(values[key])}" for key in wrong_values(values)])
    check_layers(model, key="layers in all", value=sum(map(sum, all_layers(values))))
    check_heads(values, model=model)
    return values


def wrong_values(values: Config) -> list[str]:
    """Return the keys whose values are each supported, but not together."""
    wrong = [key for key in INTEGERS if {type(each) for each in values[key]} != {int}]
    if {type(each) for each in values["only_cross_attention"]} != {bool}:
        wrong.append("only_cross_attention")
    if wrong:
        return wrong
    if any(not are_counts(layers) for layers in all_layers(values)):
        key = "transformer_layers_per_block"
        wrong.append(key if values[f"reverse_{key}"] is None else f"reverse_{key}")
    if values["addition_embed_type"] is not None:
        needed = ("addition_time_embed_dim", "projection_class_embeddings_input_dim")
        wrong += [key for key in needed if type(values[key]) is not int]
    return wrong


def are_counts(layers: tuple[Any, ...]) -> bool:
    return all(type(each) is int and each >= 0 for each in layers)


def all_layers(values: Config) -> list[tuple[Any, ...]]:
    blocks = range(len(values["block_out_channels"]))
    down = [down_layers(values, block) for block in blocks]
    return [*down, mid_layers(values), *(up_layers(values, block) for block in blocks)]


def down_layers(values: Config, block: int) -> tuple[Any, ...]:
    """Return how many transformer blocks follow each residual block of this down block, () for none."""
    if not has_attention(values["down_block_types"][block]):
        return ()
    return spread(values["transformer_layers_per_block"][block], values["layers_per_block"][block])


def mid_layers(values: Config) -> tuple[Any, ...]:
    """Return how many transformer blocks the mid block has, as a tuple of one, () for none."""
    if values["mid_block_type"] is None or not values["mid_block_type"].endswith("CrossAttn"):
        return ()
    return spread(values["transformer_layers_per_block"][-1], 1)


def up_layers(values: Config, block: int) -> tuple[Any, ...]:
    """Return the value of `down_layers` for the up block that mirrors the down block `block`."""
    if not has_attention(values["up_block_types"][-1 - block]):
        return ()
    mirrored = values["reverse_transformer_layers_per_block"]
    each = values["transformer_layers_per_block"][block] if mirrored is None else mirrored[-1 - block]
    return spread(each, values["layers_per_block"][block] + 1)


def spread(value: Any, count: int) -> tuple[Any, ...]:
    """Return one value for each of `count` residual blocks; a list that is too short gets a None."""
    if not isinstance(value, tuple):
        return (value,) * count
    return value[:count] if len(value) >= count else (*value, None)


def has_attention(block_type: str) -> bool:
    """Whether blocks of this type have cross-attention to the prompt."""
    return block_type.startswith("CrossAttn")


def cross_attentions(parameters: Iterable[str], values: Config) -> list[str]:
    """Return the places of the cross-attention layers; `parameters` are the paths of all parameters."""
    places = (path.removesuffix(KEYS) for path in parameters if path.endswith(KEYS))
    return [
        place for place in places if place.endswith(".attn2") or attends_only_to_the_prompt(place, values)
    ]


def attends_only_to_the_prompt(place: str, values: Config) -> bool:
    """Whether a layer's block has no self-attention; the mid block always has it."""
    kind, block, *_ = place.split(".")
    if kind == "mid_block":
        return False
    only: tuple[bool, ...] = values["only_cross_attention"]
    return only[int(block)] if kind == "down_blocks" else only[-1 - int(block)]


def check_heads(values: Config, *, model: str) -> None:
    """Raise UnreadableCheckpoint if the heads do not divide the width of a block with attention."""
    blocks = range(len(values["block_out_channels"]))
    attending = [block for block in blocks if down_layers(values, block) or up_layers(values, block)]
    if mid_layers(values):
        attending.append(-1)
    check_divisible(
        model,
        widths=tuple(values["block_out_channels"][block] for block in attending),
        parts=tuple(values["num_attention_heads"][block] for block in attending),
        what="heads",
    )
