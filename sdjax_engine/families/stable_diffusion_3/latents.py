"""The colours of the latents of SD 3 and SD 3.5."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sdjax_engine.families.family import Latents
from sdjax_engine.families.shifted_vae import patched_latents

# Rows are red, green and blue of each channel and, last, of zero latents, from -1 to 1, as ComfyUI has them.
COLOURS = (
    (-0.0922, -0.0175, 0.0749),
    (0.0311, 0.0633, 0.0954),
    (0.1994, 0.0927, 0.0458),
    (0.0856, 0.0339, 0.0902),
    (0.0587, 0.0272, -0.0496),
    (-0.0006, 0.1104, 0.0309),
    (0.0978, 0.0306, 0.0427),
    (-0.0042, 0.1038, 0.1358),
    (-0.0194, 0.0020, 0.0669),
    (-0.0488, 0.0130, -0.0268),
    (0.0922, 0.0988, 0.0951),
    (-0.0278, 0.0524, -0.0542),
    (0.0332, 0.0456, 0.0895),
    (-0.0069, -0.0030, -0.0810),
    (-0.0596, -0.0465, -0.0293),
    (-0.1448, -0.1463, -0.1189),
    (0.2394, 0.2135, 0.1925),
)
FACTORS = (1.5305, 0.0609)
"""The scaling and the shift of the autoencoder that the colours belong to."""


def latents_of(vae_config: Mapping[str, Any]) -> Latents:
    """Return the facts of an autoencoder's latents; a patch of the transformer is two by two of them."""
    return patched_latents(vae_config, COLOURS, FACTORS)
