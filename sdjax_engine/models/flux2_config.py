"""Reading config.json of FLUX.2's denoising network and of its autoencoder: values checked and completed."""

from __future__ import annotations

from typing import Any

from sdjax_engine.errors import quoted
from sdjax_engine.models.config import (
    AUTOENCODER_DEFAULTS,
    Config,
    check_layers,
    check_positive,
    is_count,
    refuse,
    settle,
    settle_vae_config,
)

FLUX2 = "Flux2Transformer2DModel"
FLUX2_DEFAULTS: Config = {
    "attention_head_dim": 128,
    "axes_dims_rope": (32, 32, 32, 32),
    "eps": 1e-6,
    "in_channels": 128,
    "joint_attention_dim": 15360,
    "mlp_ratio": 3.0,
    "num_attention_heads": 48,
    "num_layers": 8,
    "num_single_layers": 48,
    "rope_theta": 2000,
    "timestep_guidance_channels": 256,
}
FLUX2_SUPPORTED: dict[str, tuple[Any, ...]] = {"guidance_embeds": (False,), "patch_size": (1,)}
AXES = 4
COUNTS = (
    "attention_head_dim",
    "in_channels",
    "joint_attention_dim",
    "num_attention_heads",
    "num_layers",
    "num_single_layers",
    "timestep_guidance_channels",
)


def settle_flux2_config(config: Config) -> dict[str, Any]:
    """Return the values that a `Flux2Transformer2DModel` is built from; raises UnreadableCheckpoint.

    The reference's default of `guidance_embeds`, true, is another network, so the key must be there.
    """
    given = {"guidance_embeds": True, **config}
    out = given.pop("out_channels", None)
    values = settle(given, model=FLUX2, defaults=FLUX2_DEFAULTS, supported=FLUX2_SUPPORTED)
    refuse(FLUX2, [f"{key}={quoted(values[key])}" for key in COUNTS if not is_count(values[key])])
    check_positive(FLUX2, values, keys=("eps", "mlp_ratio", "rope_theta"))
    check_layers(FLUX2, key="num_layers", value=(values["num_layers"], values["num_single_layers"]))
    axes = values["axes_dims_rope"]
    fits = isinstance(axes, tuple) and len(axes) == AXES and all(is_count(axis) for axis in axes)
    even = fits and not any(axis % 2 for axis in axes) and sum(axes) == values["attention_head_dim"]
    refuse(FLUX2, [] if even else [f"axes_dims_rope={quoted(axes)}"])
    refuse(FLUX2, [] if out in {None, values["in_channels"]} else [f"out_channels={quoted(out)}"])
    return values | {"guidance_embeds": False}


AUTOENCODER_FLUX2 = "AutoencoderKLFlux2"
PACKED = 2
"""Latents of a packed latent along one side."""


def settle_flux2_vae_config(config: Config) -> dict[str, Any]:
    """Return the values that an `AutoencoderKLFlux2` is built from; raises UnreadableCheckpoint."""
    of_packing = {"batch_norm_eps": 1e-4, "decoder_block_out_channels": None}
    supported: dict[str, tuple[Any, ...]] = {"patch_size": (PACKED,)}
    unused = frozenset({"batch_norm_momentum", "sample_size"})
    every = {**config, **{key: config.get(key, value) for key, value in FLUX2_VAE_DEFAULTS.items()}}
    own = settle(
        {key: value for key, value in every.items() if key not in AUTOENCODER_DEFAULTS},
        model=AUTOENCODER_FLUX2,
        defaults=of_packing,
        supported=supported,
        unused=unused,
    )
    check_positive(AUTOENCODER_FLUX2, own, keys=("batch_norm_eps",))
    values = settle_vae_config({key: each for key, each in every.items() if key in AUTOENCODER_DEFAULTS})
    widths = own["decoder_block_out_channels"]
    if widths is not None and (
        not isinstance(widths, tuple) or len(widths) != len(values["block_out_channels"])
    ):
        refuse(AUTOENCODER_FLUX2, [f"decoder_block_out_channels={quoted(widths)}"])
    return values | own


FLUX2_VAE_DEFAULTS: Config = {
    "block_out_channels": (128, 256, 512, 512),
    "down_block_types": ("DownEncoderBlock2D",) * 4,
    "latent_channels": 32,
    "layers_per_block": 2,
    "scaling_factor": 1.0,
    "up_block_types": ("UpDecoderBlock2D",) * 4,
}
