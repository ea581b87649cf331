"""The inputs of cross-attention: a prompt's encoding, its projection, one layer's keys and values.

All are plain trees of arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array


class Context(NamedTuple):
    """States that layers project to keys and values, such as a prompt's encoding: `(n, length, width)`.

    With `lengths` (n,), at least 1, only the first states of each row count.
    """

    states: Array
    lengths: Array | None = None

    def without_rest(self) -> Context:
        """Return the context with zeros beyond the lengths, so that values there have no effect."""
        if self.lengths is None:
            return self
        positions = jnp.arange(self.states.shape[1], dtype=self.lengths.dtype)
        inside = positions[None, :] < self.lengths[:, None]
        return self._replace(states=jnp.where(inside[:, :, None], self.states, 0))


KeysValues = Mapping[str, tuple[Array, Array]]
"""Every cross-attention's keys and values `(n, length, width)`, by the layer's `place`."""


class Projection(NamedTuple):
    """Every layer's keys and values of a prompt; computed once for all steps.

    `lengths` are the lengths of the projected context. `image` are the keys and values of an image prompt,
    which each layer attends to apart; the result is added times `image_strength` (n,) float32.
    """

    keys_values: KeysValues
    lengths: Array | None = None
    image: KeysValues | None = None
    image_strength: Array | None = None


class KeyValues(NamedTuple):
    """Keys and values of one layer, each `(n, length, heads, width of a head)`.

    With `lengths` (n,) int32, at least 1, keys beyond a row's length have a weight of exactly zero. Their
    values must be finite.
    """

    keys: Array
    values: Array
    lengths: Array | None = None
