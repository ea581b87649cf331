"""The autoencoder of FLUX.2, the reference's `AutoencoderKLFlux2`, with packed and normalised latents."""

from __future__ import annotations

import jax.numpy as jnp
from flax import nnx
from jax import Array
from jax.typing import DTypeLike

from sdjax_engine.models.autoencoders import AutoencoderKL
from sdjax_engine.models.config import Config
from sdjax_engine.models.flux2_config import PACKED, settle_flux2_vae_config
from sdjax_engine.models.layers import Shared, parameter


class BatchNorm(nnx.Module):
    """The mean and the variance of each channel of packed latents, which are the checkpoint's."""

    def __init__(self, width: int, shared: Shared) -> None:
        self.running_mean = parameter((width,), shared)
        self.running_var = parameter((width,), shared)


class AutoencoderKLFlux2(AutoencoderKL):
    """Decodes packed latents (n, h, w, 4·latent_channels), and encodes pictures to them.

    Four neighbouring latents are one packed latent: its channels are in the order (channel, row, column).
    Packed latents have a mean of 0 and a variance of 1 in each channel.
    """

    def __init__(self, config: Config, *, dtype: DTypeLike) -> None:
        values = settle_flux2_vae_config(config)
        self.build(values, dtype)
        self.bn = BatchNorm(PACKED * PACKED * values["latent_channels"], Shared(dtype=dtype))
        self.eps = values["batch_norm_eps"]

    def decode(self, latents: Array) -> Array:
        """Return pictures in [-1, 1] of packed `latents`."""
        mean, deviation = self.moments()
        return super().decode(unpacked(latents.astype(jnp.float32) * deviation + mean))

    def encode(self, pixels: Array) -> tuple[Array, Array]:
        """Return the mean and the log variance of the packed latents of `pixels` (n, h, w, 3)."""
        of_mean, log_variance = super().encode(pixels)
        mean, deviation = self.moments()
        normed = (packed(of_mean.astype(jnp.float32)) - mean) / deviation
        return normed, packed(log_variance.astype(jnp.float32)) - 2 * jnp.log(deviation)

    def moments(self) -> tuple[Array, Array]:
        """Return the mean and the deviation of each channel, float32."""
        variance = self.bn.running_var[...].astype(jnp.float32)
        return self.bn.running_mean[...].astype(jnp.float32), jnp.sqrt(variance + self.eps)


def packed(latents: Array) -> Array:
    """Return `(n, h / 2, w / 2, 4·channels)` of latents `(n, h, w, channels)`."""
    n, height, width, channels = latents.shape
    x = latents.reshape(n, height // PACKED, PACKED, width // PACKED, PACKED, channels)
    return x.transpose(0, 1, 3, 5, 2, 4).reshape(n, height // PACKED, width // PACKED, -1)


def unpacked(latents: Array) -> Array:
    """Undo `packed`."""
    n, rows, columns, channels = latents.shape
    x = latents.reshape(n, rows, columns, channels // PACKED**2, PACKED, PACKED)
    return x.transpose(0, 1, 4, 2, 5, 3).reshape(n, rows * PACKED, columns * PACKED, -1)
