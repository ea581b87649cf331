"""The values of an autoencoder's config.json, checked and completed."""

from __future__ import annotations

from typing import Any

from sdjax_engine.models.config import Config, check_layers, check_lengths, refuse, settle
from sdjax_engine.wording import quoted

NAME = "AutoencoderKL"
DEFAULTS: Config = {
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
    "up_block_types": ("UpDecoderBlock2D",),
    "use_post_quant_conv": True,
    "use_quant_conv": True,
}
SUPPORTED: dict[str, tuple[Any, ...]] = {
    "down_block_types": ("DownEncoderBlock2D",),
    "up_block_types": ("UpDecoderBlock2D",),
    "in_channels": (3,),
    "out_channels": (3,),
    "shift_factor": (None, 0),
}


def settle_vae_config(config: Config) -> dict[str, Any]:
    """Return the values that the network is built from; raises UnreadableCheckpoint."""
    values = settle(config, model=NAME, defaults=DEFAULTS, supported=SUPPORTED)
    lists = {key: values[key] for key in ("down_block_types", "up_block_types")}
    check_lengths(NAME, count=len(values["block_out_channels"]), lists=lists)
    check_layers(NAME, key="layers_per_block", value=values["layers_per_block"])
    spread = {key: values[key] for key in ("latents_mean", "latents_std")}
    if set(spread.values()) != {None}:
        channels = values["latent_channels"]
        wrong = [key for key, each in spread.items() if not isinstance(each, tuple) or len(each) != channels]
        refuse(NAME, [f"{key}={quoted(spread[key])}" for key in wrong])
    return values
