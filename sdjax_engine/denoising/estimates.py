"""The functions that JAX traces for previews: estimates of the finished pictures, decoded or not.

`denoising/traced.py` says what holds for every traced function.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from sdjax_engine.denoising.state import StartPicture
from sdjax_engine.denoising.traced import to_uint8, to_unit
from sdjax_engine.families.family import Blueprint, Parameters

LONGEST_SIDE = 256
"""The most pixels of a side of a decoded preview: enough for a message, quick to copy and to encode."""


def estimate(x: jax.Array, history: jax.Array, start: StartPicture, weights: jax.Array) -> jax.Array:
    """Return the finished latents of every seat as they can be estimated now, (seats, h, w, c) float32.

    `weights` (seats, 2) are those of x and of what the method kept last, `history[:, 0]`. Where a start
    picture is kept, the result has its latents.
    """
    of_x, of_kept = (weights[:, index, None, None, None] for index in range(2))
    estimated = of_x * x + of_kept * history[:, 0]
    return jnp.where(start.mask > 0, estimated, start.latents)


def decoded_estimate(  # noqa: PLR0917 – the arrays of `estimate` behind the parameters
    decoder: Blueprint,
    scaling_factor: float,
    parameters: Parameters,
    x: jax.Array,
    history: jax.Array,
    start: StartPicture,
    weights: jax.Array,
    *,
    counted_by_host: bool = False,
) -> jax.Array:
    """Return the previews of every seat, (seats, h, w, 3) uint8, from the arguments of `estimate`.

    `decoder` is a tiny autoencoder's. A seat whose weights are 0 has no preview, and costs nothing unless
    `counted_by_host`. The seats are decoded one after another, so that more seats need no more memory.
    """
    latents = estimate(x, history, start, weights) / scaling_factor
    network = decoder.module(parameters)

    def decode(latents: jax.Array) -> jax.Array:
        unit = jnp.nan_to_num(to_unit(network.decode(latents[None])))
        return to_uint8(pooled(unit))[0]

    def decode_seat(seat: tuple[jax.Array, jax.Array]) -> jax.Array:
        latents, wanted = seat
        if counted_by_host:
            return decode(latents)
        shape = jax.eval_shape(decode, latents)
        preview: jax.Array = jax.lax.cond(
            wanted, decode, lambda _: jnp.zeros(shape.shape, shape.dtype), latents
        )
        return preview

    previews: jax.Array = jax.lax.map(decode_seat, (latents, jnp.any(weights != 0, axis=1)))
    return previews


def pooled(picture: jax.Array) -> jax.Array:
    """Return pictures (n, h, w, 3) as means of squares, so that no side has more than 256 pixels.

    Where a side is no multiple of the squares', its last pixels are repeated.
    """
    count, height, width, channels = picture.shape
    side = -(-max(height, width) // LONGEST_SIDE)
    if side == 1:
        return picture
    padded = jnp.pad(picture, ((0, 0), (0, -height % side), (0, -width % side), (0, 0)), mode="edge")
    squares = padded.reshape(count, -(-height // side), side, -(-width // side), side, channels)
    return squares.mean(axis=(2, 4))
