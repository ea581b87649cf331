"""The noise of a picture: drawn from its request's seed alone, the same on every device.

The implementation of the keys and the mode in which bits are drawn are fixed here, so that the settings of a
host application (`jax_default_prng_impl`, `jax_threefry_partitionable`, `jax_random_seed_offset`) change no
picture.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.numpy as jnp

# Purposes of noise besides the evaluations, whose numbers are far smaller.
OF_START_PICTURE = 2**31
OF_KEPT_PICTURE = 2**31 + 1

IMPLEMENTATION = "threefry2x32"
KEY_WORDS = 2  # uint32 numbers in a key of that implementation


def initial_noise(seed: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Return standard noise (h, w, c), as the removed Flax pipeline draws it for one image with this seed."""
    return _normal(key_of(seed), shape)


def varied_noise(noise: jax.Array, seeds: jax.Array, strengths: jax.Array) -> jax.Array:
    """Turn standard noise (h, w, c) towards the initial noise of `seeds` (n,), one after the other.

    A strength of 0 leaves the noise as it is, bit for bit; 1 replaces it. The noises are independent, so the
    spherical interpolation between them is a rotation by strength · π/2, and the result is standard noise.
    """

    def turn(noise: jax.Array, variation: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        seed, strength = variation
        angle = strength * (jnp.pi / 2)
        other = initial_noise(seed, noise.shape)
        turned = jnp.cos(angle) * noise + jnp.sin(angle) * other
        return jnp.where(strength > 0, turned, noise), None

    varied, _ = jax.lax.scan(turn, noise, (seeds, strengths))
    return varied


def fresh_noise(seed: jax.Array, purpose: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Return standard noise (h, w, c) for another purpose: an evaluation's number, or a constant above."""
    return _normal(jax.random.fold_in(key_of(seed), purpose), shape)


def key_of(seed: jax.Array) -> jax.Array:
    """Return the key of `jax.random.PRNGKey` for a seed, a uint32 scalar, under JAX's default settings."""
    key: jax.Array = as_threefry(jnp.stack([jnp.zeros_like(seed), seed]))
    return key


def as_threefry(key: Any) -> Any:
    """Return a raw key of two words as Threefry's; a typed key, or one of another length, stays as it is."""
    if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) or key.shape[-1:] != (KEY_WORDS,):
        return key
    return jax.random.wrap_key_data(key, impl=IMPLEMENTATION)


def usual_bits() -> AbstractContextManager[Any]:
    """Return the context in which keys give the bits of JAX's default settings."""
    mode: AbstractContextManager[Any] = jax.threefry_partitionable(True)
    return mode


def _normal(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Draw noise channels first with a leading axis of one, as the reference does; return it as (h, w, c)."""
    height, width, channels = shape
    with usual_bits():
        noise = jax.random.normal(key, (1, channels, height, width), jnp.float32)
    return noise[0].transpose(1, 2, 0)
