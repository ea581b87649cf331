"""The colours of the latents of Z-Image, whose autoencoder is FLUX.1's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sdjax_engine.families.family import Latents
from sdjax_engine.families.shifted_vae import patched_latents

# Rows are red, green and blue of each channel and, last, of zero latents, from -1 to 1, as ComfyUI has them.
COLOURS = (
    (-0.0346, 0.0244, 0.0681),
    (0.0034, 0.0210, 0.0687),
    (0.0275, -0.0668, -0.0433),
    (-0.0174, 0.0160, 0.0617),
    (0.0859, 0.0721, 0.0329),
    (0.0004, 0.0383, 0.0115),
    (0.0405, 0.0861, 0.0915),
    (-0.0236, -0.0185, -0.0259),
    (-0.0245, 0.0250, 0.1180),
    (0.1008, 0.0755, -0.0421),
    (-0.0515, 0.0201, 0.0011),
    (0.0428, -0.0012, -0.0036),
    (0.0817, 0.0765, 0.0749),
    (-0.1264, -0.0522, -0.1103),
    (-0.0280, -0.0881, -0.0499),
    (-0.1262, -0.0982, -0.0778),
    (-0.0329, -0.0718, -0.0851),
)
FACTORS = (0.3611, 0.1159)
"""The scaling and the shift of the autoencoder that the colours belong to."""


def latents_of(vae_config: Mapping[str, Any]) -> Latents:
    """Return the facts of an autoencoder's latents; a patch of the transformer is two by two of them."""
    return patched_latents(vae_config, COLOURS, FACTORS)
