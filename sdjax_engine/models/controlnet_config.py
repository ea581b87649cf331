"""Reading a ControlNet's config.json: the half of a UNet, and how the control picture is embedded."""

from __future__ import annotations

from typing import Any

from sdjax_engine.errors import UnreadableCheckpoint, quoted
from sdjax_engine.models.config import MOST_BLOCKS, Config, check_layers, is_count, refuse, settle
from sdjax_engine.models.unet_config import DEFAULTS as UNET_DEFAULTS
from sdjax_engine.models.unet_config import settle_unet_config

NAME, UNION = "ControlNetModel", "ControlNetUnionModel"
MOST_TYPES = 64  # of a union; known ones have six or eight
EMBEDDING: Config = {
    "conditioning_channels": 3,
    "conditioning_embedding_out_channels": (16, 32, 96, 256),
    "controlnet_conditioning_channel_order": "rgb",
}
SHARED = (
    "block_out_channels",
    "layers_per_block",
    "cross_attention_dim",
    "addition_embed_type",
    "projection_class_embeddings_input_dim",
)
TYPES: Config = {
    "num_control_type": 6,
    "num_proj_channel": 320,
    "num_trans_channel": 320,
    "num_trans_head": 8,
    "num_trans_layer": 1,
}
SUPPORTED: dict[str, tuple[Any, ...]] = {
    "conditioning_channels": (3,),
    "controlnet_conditioning_channel_order": ("rgb", "bgr"),
}
OF_UNION: Config = {
    **EMBEDDING,
    **TYPES,
    "conditioning_embedding_out_channels": (48, 96, 192, 384),
}
UNION_SUPPORTED = SUPPORTED | {"controlnet_conditioning_channel_order": ("rgb",)}


def settle_controlnet_config(config: Config) -> dict[str, Any]:
    """Return the values that a `ControlNetModel` is built from; raises UnreadableCheckpoint.

    They are those of a UNet without its way up, and those of the control picture's embedding.
    """
    return settle_half(config, NAME, EMBEDDING, SUPPORTED)


def settle_controlnet_union_config(config: Config) -> dict[str, Any]:
    """Return the values that a `ControlNetUnionModel` is built from; raises UnreadableCheckpoint."""
    values = settle_half(config, UNION, OF_UNION, UNION_SUPPORTED)
    wrong = [key for key in (*TYPES, "addition_time_embed_dim") if not is_count(values[key])]
    if not wrong:
        width = values["block_out_channels"][0]
        wrong = [key for key in ("num_trans_channel", "num_proj_channel") if values[key] != width]
        wrong += ["num_control_type"] if values["num_control_type"] > MOST_TYPES else []
    refuse(UNION, [f"{key}={quoted(values[key])}" for key in wrong])
    check_layers(UNION, key="num_trans_layer", value=values["num_trans_layer"])
    return values


def settle_half(
    config: Config, model: str, defaults: Config, supported: dict[str, tuple[Any, ...]]
) -> dict[str, Any]:
    """Return the checked values of the UNet's half and of the keys in `defaults`."""
    own = {key: value for key, value in config.items() if key in defaults}
    embedding = settle(own, model=model, defaults=defaults, supported=supported)
    widths = embedding["conditioning_embedding_out_channels"]
    if not isinstance(widths, tuple) or not 1 <= len(widths) <= MOST_BLOCKS or not all(map(is_count, widths)):
        refuse(model, [f"conditioning_embedding_out_channels={quoted(widths)}"])
    blocks = config.get("down_block_types", UNET_DEFAULTS["down_block_types"])
    rest = {key: value for key, value in config.items() if key not in defaults}
    half = settle_unet_config(rest | {"up_block_types": ("UpBlock2D",) * len(blocks)}, model=model)
    return half | embedding


def factor_of(values: Config) -> int:
    """Return the pixels of a control picture per latent pixel, along one side."""
    return int(2 ** (len(values["conditioning_embedding_out_channels"]) - 1))


def check_fits(name: str, control: Config, unet: Config, *, latent_channels: int, factor: int) -> None:
    """Raise UnreadableCheckpoint where a ControlNet was made for another kind of UNet.

    Both configurations are settled; `factor` is the pixels of a picture per latent pixel.
    """
    wrong = [key for key in SHARED if control[key] != unet[key]]
    wrong += ["in_channels"] if control["in_channels"] != latent_channels else []
    wrong += ["conditioning_embedding_out_channels"] if factor_of(control) != factor else []
    if wrong:
        raise UnreadableCheckpoint(
            f"The ControlNet {name} was made for another kind of model: they differ in {', '.join(wrong)}."
        )
