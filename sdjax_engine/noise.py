"""The noise of a picture: drawn from its request's seed alone, the same on every device."""

from __future__ import annotations

import jax
import jax.numpy as jnp

# Noise that is no evaluation's: their numbers end long before these begin.
OF_START_PICTURE = 2**31
OF_KEPT_PICTURE = 2**31 + 1


def initial_noise(seed: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Standard noise (h, w, c): that of the removed Flax pipeline for one image and the key of this seed."""
    return _normal(jax.random.PRNGKey(seed), shape)


def fresh_noise(seed: jax.Array, purpose: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Standard noise (h, w, c) for another purpose: the number of an evaluation, or one named above."""
    return _normal(jax.random.fold_in(jax.random.PRNGKey(seed), purpose), shape)


def _normal(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Noise drawn channels first with a leading axis of one, as the reference draws it, then (h, w, c)."""
    height, width, channels = shape
    noise = jax.random.normal(key, (1, channels, height, width), jnp.float32)
    return noise[0].transpose(1, 2, 0)
