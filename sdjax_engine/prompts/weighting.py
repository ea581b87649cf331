"""Weights of tokens, applied to what the text encoder makes of them; pure JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def apply_weights(hidden: jax.Array, weights: jax.Array) -> jax.Array:
    """Return encodings (..., length, width) float32 multiplied by their tokens' weights (..., length).

    The arithmetic is AUTOMATIC1111's: z ← z·w, then z ← z · mean(z before) / mean(z), each chunk by itself
    over all its tokens. A chunk whose weights are all 1 is left as it is, to the bit; the mean is left alone
    where the weighted one is 0.
    """
    weighted = hidden * weights[..., None]
    mean = jnp.mean(hidden, axis=(-2, -1), keepdims=True)
    new_mean = jnp.mean(weighted, axis=(-2, -1), keepdims=True)
    restored = weighted * jnp.where(new_mean == 0.0, 1.0, mean / jnp.where(new_mean == 0.0, 1.0, new_mean))
    return jnp.where(jnp.all(weights == 1.0, axis=-1)[..., None, None], hidden, restored)
