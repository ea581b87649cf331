"""The colours of previews: a linear map from an autoencoder's latents to RGB. No JAX here.

The mean colour of the pixels that a cell of the latents is decoded to is about that cell times a matrix. The
matrix belongs to the autoencoder, which a family's checkpoints share: its scaling factor tells which it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

# Rows are red, green and blue of each channel and, last, of zero latents, from -1 to 1. Those of Stable
# Diffusion are the ones that ComfyUI uses; those of the demo were fitted to 24 of its pictures.
STABLE_DIFFUSION = (
    (0.3512, 0.2297, 0.3227),
    (0.3250, 0.4974, 0.2350),
    (-0.2829, 0.1762, 0.2721),
    (-0.2120, -0.2616, -0.7177),
    (0.0, 0.0, 0.0),
)
SDXL = (
    (0.3651, 0.4232, 0.4341),
    (-0.2533, -0.0042, 0.1068),
    (0.1076, 0.1111, -0.0362),
    (-0.3165, -0.2492, -0.2188),
    (0.1084, -0.0175, -0.0011),
)
DEMO = (
    (-0.790, -0.923, 0.146),
    (0.591, 1.088, 0.508),
    (0.444, -0.163, -0.239),
    (-0.304, 0.051, 0.073),
    (0.109, -0.477, -0.109),
)
BY_SCALING_FACTOR: Mapping[float, tuple[tuple[float, float, float], ...]] = MappingProxyType(
    {0.18215: STABLE_DIFFUSION, 0.13025: SDXL, 0.52892: DEMO}
)


def colours_of(vae_config: Mapping[str, Any]) -> Array | None:
    """Return the map (channels + 1, 3) of an autoencoder, None where it is not known."""
    rows = BY_SCALING_FACTOR.get(round(float(vae_config["scaling_factor"]), 5))
    if rows is None or len(rows) != int(vae_config["latent_channels"]) + 1:
        return None
    return np.array(rows)


def coloured(latents: npt.NDArray[np.float32], colours: Array) -> npt.NDArray[np.uint8]:
    """Return the preview (h, w, 3) of latents (h, w, c); a value that is no number is grey."""
    unit = np.nan_to_num(latents.astype(np.float64)) @ colours[:-1] + colours[-1]
    pixels: npt.NDArray[np.uint8] = np.clip(np.round((unit + 1) * 127.5), 0, 255).astype(np.uint8)
    return pixels
