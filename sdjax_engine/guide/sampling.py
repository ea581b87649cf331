"""From noise to latents for every sampler: one loop over the rows of a table; pure JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sdjax_engine.samplers import ROW, step
from sdjax_engine.samplers.tables import Table

Predict = Callable[[jax.Array, jax.Array], jax.Array]
"""Latents (n, h, w, c), timesteps (n,) → the network's guided output, (n, h, w, c) float32."""


class Sampling(NamedTuple):
    """A table as arrays, so that the settings of a sampler are data and compile nothing.

    `rows` is float32 (max_rows, ROW). Only the first `evaluations` rows are used.
    """

    rows: Any
    evaluations: Any
    init_noise_sigma: Any
    init_latent_scale: Any

    @classmethod
    def of(cls, table: Table, *, max_rows: int) -> Sampling:
        """Return the arrays of `table`, padded to `max_rows` rows."""
        return cls(
            rows=table.padded(max_rows),
            evaluations=np.int32(table.evaluations),
            init_noise_sigma=np.float32(table.init_noise_sigma),
            init_latent_scale=np.float32(table.init_latent_scale),
        )


def denoise(predict: Predict, x: jax.Array, key: jax.Array, sampling: Sampling) -> jax.Array:
    """Return the latents (n, h, w, c) after all evaluations, starting from `x`.

    Samplers that add noise draw it from `key` folded with the index of the evaluation.
    """
    n, height, width, channels = x.shape

    def one(index: jax.Array, carried: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        x, r, history = carried
        row = jnp.broadcast_to(jnp.asarray(sampling.rows)[index], (n, ROW))
        m = predict(step.network_input(x, row), step.timestep(row))
        z = normal(jax.random.fold_in(key, index), (n, height, width, channels))
        return step.advance(x, r, history, m, z, row)

    first = (x, jnp.zeros_like(x), step.empty_history(x))
    latents: jax.Array = jax.lax.fori_loop(0, sampling.evaluations, one, first)[0]
    return latents


def normal(key: jax.Array, shape: tuple[int, ...], dtype: Any = jnp.float32) -> jax.Array:
    """Standard noise (n, h, w, c), float32; drawn in `dtype`, channels first, as in the removed classes."""
    n, height, width, channels = shape
    noise = jax.random.normal(key, (n, channels, height, width), dtype)
    return channels_last(noise)


def channels_last(pictures: jax.Array) -> jax.Array:
    """(n, c, h, w) → (n, h, w, c), float32."""
    return jnp.asarray(pictures).astype(jnp.float32).transpose(0, 2, 3, 1)


def channels_first(pictures: jax.Array) -> jax.Array:
    """(n, h, w, c) → (n, c, h, w)."""
    return pictures.transpose(0, 3, 1, 2)


def encode(vae: Any, pictures: jax.Array, key: jax.Array) -> jax.Array:
    """Return latents (n, h, w, c), not yet scaled, of pictures (n, 3, height, width).

    The noise of the encoding is drawn channels last; all other noise is drawn channels first.
    """
    mean, logvar = (moment.astype(jnp.float32) for moment in vae.encode(channels_last(pictures)))
    latents: jax.Array = mean + jnp.exp(0.5 * logvar) * jax.random.normal(key, mean.shape, jnp.float32)
    return latents
