"""From a picture and a mask to what an image starts from; pure JAX, for one device's newcomer."""

from __future__ import annotations

from typing import Protocol

import jax
import jax.numpy as jnp

from sdjax_engine.denoising.noise import OF_KEPT_PICTURE, OF_START_PICTURE, fresh_noise
from sdjax_engine.denoising.state import StartPicture


class Encoder(Protocol):
    """The picture encoder: (n, H, W, 3) from -1 to 1 → mean and log variance of its latents (n, h, w, c)."""

    def __call__(self, pixels: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the moments of each row."""
        ...


def nothing(latents: tuple[int, ...], channels: int) -> StartPicture:
    """What an image starts from that starts from noise alone; `latents` is (n, h, w, c)."""
    count, height, width, _ = latents
    return StartPicture(
        latents=jnp.zeros(latents),
        mask=jnp.ones((count, height, width, 1)),
        channels=jnp.zeros((count, height, width, channels)),
    )


def start_picture(
    encode: Encoder,
    pixels: jax.Array,
    mask: jax.Array,
    seed: jax.Array,
    present: jax.Array,
    *,
    scaling_factor: float,
    latents: tuple[int, ...],
    channels: int,
) -> StartPicture:
    """Encode `pixels` (1, H, W, 3) uint8, of which `mask` (1, H, W) bool is painted anew.

    The latents are drawn from the encoder's distribution, and the mask of a latent pixel is that of its
    first pixel, as the reference has both. A network with further input `channels` sees the mask and the
    latents of the kept part, and paints all by itself: nothing is blended in. `present` (1,) bool False
    asks for nothing and costs nothing.
    """

    def draw(picture: jax.Array, purpose: int) -> jax.Array:
        mean, log_variance = (moments.astype(jnp.float32) for moments in encode(picture))
        noise = fresh_noise(seed[0], jnp.uint32(purpose), latents[1:])[None]
        return (mean + jnp.exp(0.5 * log_variance) * noise) * scaling_factor

    def paint() -> StartPicture:
        picture = pixels.astype(jnp.float32) / 127.5 - 1.0
        factor = pixels.shape[1] // latents[1]
        small = mask[:, ::factor, ::factor, None].astype(jnp.float32)
        drawn = draw(picture, OF_START_PICTURE)
        if not channels:
            return StartPicture(latents=drawn, mask=small, channels=jnp.zeros((*small.shape[:3], 0)))
        kept = draw(jnp.where(mask[..., None], 0.0, picture), OF_KEPT_PICTURE)
        further = jnp.concatenate([small, kept], axis=-1)
        return StartPicture(latents=drawn, mask=jnp.ones_like(small), channels=further)

    started: StartPicture = jax.lax.cond(present[0], paint, lambda: nothing(latents, channels))
    return started
