"""What queries attend to: a prompt's encoding, what layers make of it, one layer's keys and values.

Plain trees of arrays, which know nothing of the layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array


class Context(NamedTuple):
    """States that layers make keys and values of, such as a prompt's encoding: `(n, length, width)`.

    With `lengths` (n,), at least 1, only so many of each row.
    """

    states: Array
    lengths: Array | None = None

    def without_rest(self) -> Context:
        """Return it with zeros beyond the lengths, so that what stood there reaches nobody, NaN included."""
        if self.lengths is None:
            return self
        positions = jnp.arange(self.states.shape[1], dtype=self.lengths.dtype)
        inside = positions[None, :] < self.lengths[:, None]
        return self._replace(states=jnp.where(inside[:, :, None], self.states, 0))


class Projection(NamedTuple):
    """What every layer makes of a prompt, once for many steps: its keys and values, by the layer's `place`.

    Each is `(n, length, width)`; `lengths` are those of the context that they were made of.
    """

    keys_values: Mapping[str, tuple[Array, Array]]
    lengths: Array | None = None


class KeyValues(NamedTuple):
    """Keys and values of one layer, each `(n, length, heads, width of a head)`.

    With `lengths` (n,) int32, at least 1, those beyond a row's have a weight of exactly zero; what stands
    there must be finite.
    """

    keys: Array
    values: Array
    lengths: Array | None = None
