"""The autoencoder of FLUX.2, whose packed and normalised latents the sampler integrates; their colours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from sdjax_engine.families.family import Latents, Parameters
from sdjax_engine.families.precision import Precisions
from sdjax_engine.models.flux2_config import PACKED

PACKED_LATENTS = PACKED * PACKED
"""The autoencoder's latents in one of the sampler's."""

# Rows are red, green and blue of each channel of the autoencoder and, last, of zero latents, from -1 to 1, as
# ComfyUI has them.
COLOURS = (
    (0.0058, 0.0113, 0.0073),
    (0.0495, 0.0443, 0.0836),
    (-0.0099, 0.0096, 0.0644),
    (0.2144, 0.3009, 0.3652),
    (0.0166, -0.0039, -0.0054),
    (0.0157, 0.0103, -0.0160),
    (-0.0398, 0.0902, -0.0235),
    (-0.0052, 0.0095, 0.0109),
    (-0.3527, -0.2712, -0.1666),
    (-0.0301, -0.0356, -0.0180),
    (-0.0107, 0.0078, 0.0013),
    (0.0746, 0.0090, -0.0941),
    (0.0156, 0.0169, 0.0070),
    (-0.0034, -0.0040, -0.0114),
    (0.0032, 0.0181, 0.0080),
    (-0.0939, -0.0008, 0.0186),
    (0.0018, 0.0043, 0.0104),
    (0.0284, 0.0056, -0.0127),
    (-0.0024, -0.0022, -0.0030),
    (0.1207, -0.0026, 0.0065),
    (0.0128, 0.0101, 0.0142),
    (0.0137, -0.0072, -0.0007),
    (0.0095, 0.0092, -0.0059),
    (0.0000, -0.0077, -0.0049),
    (-0.0465, -0.0204, -0.0312),
    (0.0095, 0.0012, -0.0066),
    (0.0290, -0.0034, 0.0025),
    (0.0220, 0.0169, -0.0048),
    (-0.0332, -0.0457, -0.0468),
    (-0.0085, 0.0389, 0.0609),
    (-0.0076, 0.0003, -0.0043),
    (-0.0111, -0.0460, -0.0614),
    (-0.0329, -0.0718, -0.0851),
)


def colours_of_packed() -> npt.NDArray[np.float64]:
    """Return the map of packed latents: a cell has the mean of the colours of its latents."""
    *of_channels, of_zero = np.array(COLOURS)
    return np.array([*np.repeat(of_channels, PACKED_LATENTS, axis=0) / PACKED_LATENTS, of_zero])


def latents_of(vae_config: Mapping[str, Any]) -> Latents:
    """Return the facts of an autoencoder's packed latents."""
    cell = PACKED * 2 ** (len(vae_config["block_out_channels"]) - 1)
    channels = int(vae_config["latent_channels"])
    return Latents(
        cell=cell,
        channels=PACKED_LATENTS * channels,
        multiple=cell,
        colours=colours_of_packed() if channels == len(COLOURS) - 1 else None,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class PackedVae:
    """The autoencoder; a start picture is the mean of its distribution, as in the reference."""

    component: str
    network: Precisions

    def encode(self, parameters: Parameters, picture: jax.Array, noise: jax.Array) -> jax.Array:
        """Return the latents of a picture; nothing is drawn."""
        del noise
        mean, _ = self.network.module(parameters).encode(picture)
        latents: jax.Array = mean.astype(jnp.float32)
        return latents

    def decode(self, parameters: Parameters, latents: jax.Array, *, in_float32: bool) -> jax.Array:
        """Return the picture from -1 to 1."""
        picture: jax.Array = self.network.module(parameters, in_float32=in_float32).decode(latents)
        return picture
