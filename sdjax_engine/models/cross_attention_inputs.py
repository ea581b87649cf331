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


class Projection(NamedTuple):
    """Every layer's keys and values of a prompt, by the layer's `place`; computed once for all steps.

    Each is `(n, length, width)`. `lengths` are the lengths of the projected context.
    """

    keys_values: Mapping[str, tuple[Array, Array]]
    lengths: Array | None = None


class KeyValues(NamedTuple):
    """Keys and values of one layer, each `(n, length, heads, width of a head)`.

    With `lengths` (n,) int32, at least 1, keys beyond a row's length have a weight of exactly zero. Their
    values must be finite.
    """

    keys: Array
    values: Array
    lengths: Array | None = None
