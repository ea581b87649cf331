"""The autoencoder of Z-Image and SD 3, whose latents are shifted, then scaled; facts of these latents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sdjax_engine.families.family import Latents, Loaded, Parameters
from sdjax_engine.families.precision import Precisions

Colours = tuple[tuple[float, float, float], ...]


def patched_latents(vae_config: Mapping[str, Any], colours: Colours, factors: tuple[float, float]) -> Latents:
    """Return the facts of latents of which a patch of the transformer is two by two.

    The `colours` are known for an autoencoder with these `factors`, scaling and shift.
    """
    cell = int(2 ** (len(vae_config["block_out_channels"]) - 1))
    channels = int(vae_config["latent_channels"])
    found = tuple(round(float(vae_config[key] or 0), 4) for key in ("scaling_factor", "shift_factor"))
    known = found == factors and channels == len(colours) - 1
    return Latents(
        cell=cell, channels=channels, multiple=2 * cell, colours=np.array(colours) if known else None
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class ShiftedVae:
    """The autoencoder; the transformer's latents are its own less `shift_factor`, times `scaling_factor`."""

    component: str
    network: Precisions
    scaling_factor: float
    shift_factor: float

    @classmethod
    def of(cls, component: str, network: Loaded) -> ShiftedVae:
        """Return the autoencoder of a checkpoint."""
        return cls(
            component=component,
            network=Precisions.of(network),
            scaling_factor=float(network.config["scaling_factor"]),
            shift_factor=float(network.config["shift_factor"] or 0),
        )

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
