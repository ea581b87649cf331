"""Rotary position embeddings (Su et al. 2021, "RoFormer"): queries and keys turned by angles.

The two numbers that are turned together are neighbours, or lie half a head apart. Angles, cosines and sines
are float32.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import Array


class Rotation(NamedTuple):
    """Cosines and sines of the angles of each number of a head: `(n or 1, length, width of a head)`."""

    cosines: Array
    sines: Array


def frequencies(width: int, theta: float) -> npt.NDArray[np.float32]:
    """Return the radians that each of `width / 2` angles grows by from one position to the next."""
    exponents = np.arange(0, width, 2, dtype=np.float64) / width
    growth: npt.NDArray[np.float32] = (theta**-exponents).astype(np.float32)
    return growth


def rotation_of_neighbours(angles: Array) -> Rotation:
    """Return the rotation by `angles` (n or 1, length, width / 2) for `turn_neighbours`."""
    return Rotation(*(jnp.repeat(each, 2, axis=-1) for each in (jnp.cos(angles), jnp.sin(angles))))


def turn_neighbours(x: Array, rotation: Rotation) -> Array:
    """Turn the pairs (0, 1), (2, 3), … of every head of `x` (n, length, heads, width)."""
    # Shifted copies, because a pair as the last axis of an array would fill few lanes of a TPU.
    first = np.arange(x.shape[-1]) % 2 == 0
    return turned(x, jnp.where(first, -jnp.roll(x, -1, axis=-1), jnp.roll(x, 1, axis=-1)), rotation)


def rotation_of_halves(angles: Array) -> Rotation:
    """Return the rotation by `angles` (n or 1, length, width / 2) for `turn_halves`."""
    return Rotation(*(jnp.concatenate([each] * 2, axis=-1) for each in (jnp.cos(angles), jnp.sin(angles))))


def turn_halves(x: Array, rotation: Rotation) -> Array:
    """Turn the pairs (0, width / 2), (1, width / 2 + 1), … of every head of `x` (n, length, heads, width)."""
    first, second = jnp.split(x, 2, axis=-1)
    return turned(x, jnp.concatenate([-second, first], axis=-1), rotation)


def turned(x: Array, crosswise: Array, rotation: Rotation) -> Array:
    """Return x·cos + crosswise·sin in the dtype of `x`; `crosswise` is `x` turned by a right angle."""
    cosines, sines = (each[:, :, None] for each in rotation)
    wide = x.astype(jnp.float32) * cosines + crosswise.astype(jnp.float32) * sines
    return wide.astype(x.dtype)
