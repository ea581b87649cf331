"""The autoencoder of Z-Image, which is FLUX.1's, and the colours of its latents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sdjax_engine.families.family import Latents, Parameters
from sdjax_engine.families.precision import Precisions

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
SCALING, SHIFT = 0.3611, 0.1159
"""The factors of the autoencoder that the colours belong to."""


def latents_of(vae_config: Mapping[str, Any]) -> Latents:
    """Return the facts of an autoencoder's latents; a patch of the transformer is two by two of them."""
    cell = int(2 ** (len(vae_config["block_out_channels"]) - 1))
    channels = int(vae_config["latent_channels"])
    factors = tuple(round(float(vae_config[key] or 0), 4) for key in ("scaling_factor", "shift_factor"))
    known = factors == (SCALING, SHIFT) and channels == len(COLOURS) - 1
    return Latents(
        cell=cell, channels=channels, multiple=2 * cell, colours=np.array(COLOURS) if known else None
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class ShiftedVae:
    """The autoencoder; the transformer's latents are its own less `shift_factor`, times `scaling_factor`."""

    component: str
    network: Precisions
    scaling_factor: float
    shift_factor: float

    def encode(self, parameters: Parameters, picture: jax.Array, noise: jax.Array) -> jax.Array:
        """Return latents drawn from the encoder's distribution."""
        moments = self.network.module(parameters).encode(picture)
        mean, log_variance = (each.astype(jnp.float32) for each in moments)
        drawn: jax.Array = mean + jnp.exp(0.5 * log_variance) * noise
        return (drawn - self.shift_factor) * self.scaling_factor

    def decode(self, parameters: Parameters, latents: jax.Array, *, in_float32: bool) -> jax.Array:
        """Return the picture from -1 to 1."""
        autoencoder = self.network.module(parameters, in_float32=in_float32)
        picture: jax.Array = autoencoder.decode(latents / self.scaling_factor + self.shift_factor)
        return picture
