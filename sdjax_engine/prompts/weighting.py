"""The weights of tokens, applied to the text encoder's output; pure JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def apply_weights(hidden: jax.Array, weights: jax.Array) -> jax.Array:
    """Return encodings (..., length, width) float32 multiplied by their tokens' weights (..., length).

    The arithmetic is AUTOMATIC1111's: z ← z·w, then z ← z · mean(z before) / mean(z), over all tokens of each
    chunk. A chunk whose weights are all 1 is unchanged to the bit. If the weighted mean is 0, the second step
    is left out.
    """
    weighted = hidden * weights[..., None]
    mean = jnp.mean(hidden, axis=(-2, -1), keepdims=True)
    new_mean = jnp.mean(weighted, axis=(-2, -1), keepdims=True)
    restored = weighted * jnp.where(new_mean == 0.0, 1.0, mean / new_mean)
    return jnp.where(jnp.all(weights == 1.0, axis=-1)[..., None, None], hidden, restored)
