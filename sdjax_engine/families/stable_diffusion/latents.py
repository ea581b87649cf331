"""The autoencoder of Stable Diffusion, and the colours of its latents.

The mean colour of the pixels that a cell of the latents is decoded to is about that cell times a matrix. The
matrix belongs to the autoencoder, which checkpoints share: its scaling factor tells which it is. A checkpoint
with an autoencoder of its own may name its matrix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from sdjax_engine.families.family import Latents, Parameters
from sdjax_engine.families.precision import Precisions

# Rows are red, green and blue of each channel and, last, of zero latents, from -1 to 1, as ComfyUI has them.
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
BY_SCALING_FACTOR: Mapping[float, tuple[tuple[float, float, float], ...]] = MappingProxyType(
    {0.18215: STABLE_DIFFUSION, 0.13025: SDXL}
)


PAINTING, LATENT_RGB = "_painting", "latent_rgb"
"""The key of model_index.json that says how a checkpoint is painted, and therein the one of its map."""


def colours_of(vae_config: Mapping[str, Any], index: Mapping[str, Any]) -> npt.NDArray[np.float64] | None:
    """Return the map (channels + 1, 3) of an autoencoder, None where it is not known.

    An autoencoder that no checkpoints share may have its map in `index`, which is what model_index.json says
    besides the components. A map of another form is ignored.
    """
    try:
        shared = BY_SCALING_FACTOR.get(round(float(vae_config["scaling_factor"]), 5))
        colours = np.array(shared or index[PAINTING][LATENT_RGB], float)
    except (KeyError, OverflowError, TypeError, ValueError):
        return None
    fits = colours.shape == (int(vae_config["latent_channels"]) + 1, 3) and np.isfinite(colours).all()
    return colours if fits else None


def scale_of(vae_config: Mapping[str, Any]) -> int:
    """Return the pixels of a picture per latent pixel, along one side."""
    return int(2 ** (len(vae_config["block_out_channels"]) - 1))


def latents_of(vae_config: Mapping[str, Any], index: Mapping[str, Any]) -> Latents:
    """Return the facts of an autoencoder's latents; `index` is what model_index.json says besides."""
    scale = scale_of(vae_config)
    return Latents(
        cell=scale,
        channels=int(vae_config["latent_channels"]),
        multiple=scale,
        colours=colours_of(vae_config, index),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Vae:
    """The autoencoder; the UNet's latents are its own times the `scaling_factor`."""

    component: str
    network: Precisions
    scaling_factor: float

    def encode(self, parameters: Parameters, picture: jax.Array, noise: jax.Array) -> jax.Array:
        """Return latents drawn from the encoder's distribution."""
        moments = self.network.module(parameters).encode(picture)
        mean, log_variance = (each.astype(jnp.float32) for each in moments)
        drawn: jax.Array = (mean + jnp.exp(0.5 * log_variance) * noise) * self.scaling_factor
        return drawn

    def decode(self, parameters: Parameters, latents: jax.Array, *, in_float32: bool) -> jax.Array:
        """Return the picture from -1 to 1."""
        autoencoder = self.network.module(parameters, in_float32=in_float32)
        picture: jax.Array = autoencoder.decode(latents / self.scaling_factor)
        return picture
