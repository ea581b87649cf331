"""The decoder's values of a tiny autoencoder's config.json, checked and completed."""

from __future__ import annotations

from typing import Any

from sdjax_engine.models.config import Config, check_layers, check_lengths, refuse, settle
from sdjax_engine.wording import quoted

NAME = "AutoencoderTiny"
WIDTHS, BLOCKS = "decoder_block_out_channels", "num_decoder_blocks"
DEFAULTS: Config = {
    "act_fn": "relu",
    WIDTHS: (64, 64, 64, 64),
    "latent_channels": 4,
    BLOCKS: (3, 3, 3, 1),
    "out_channels": 3,
    "scaling_factor": 1.0,
    "upsample_fn": "nearest",
    "upsampling_scaling_factor": 2,
}
SUPPORTED: dict[str, tuple[Any, ...]] = {
    "out_channels": (3,),
    "shift_factor": (None, 0),
    "upsample_fn": ("nearest",),
    "upsampling_scaling_factor": (2,),
}
UNUSED = frozenset(
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
    values = settle(config, model=NAME, defaults=DEFAULTS, supported=SUPPORTED, unused=UNUSED)
    lists = (WIDTHS, BLOCKS)
    refuse(NAME, [f"{key}={quoted(values[key])}" for key in lists if not isinstance(values[key], tuple)])
    check_lengths(NAME, count=len(values[WIDTHS]), lists={BLOCKS: values[BLOCKS]})
    check_layers(NAME, key=BLOCKS, value=values[BLOCKS])
    if len(set(values[WIDTHS])) != 1:  # no layer of the reference changes the width
        refuse(NAME, [f"{WIDTHS}={quoted(values[WIDTHS])}"])
    if not values["scaling_factor"] > 0:
        refuse(NAME, [f"scaling_factor={quoted(values['scaling_factor'])}"])
    return values


def factor_of(values: Config) -> int:
    """Return the pixels of a picture per latent pixel, along one side."""
    return int(2 ** (len(values[WIDTHS]) - 1))
