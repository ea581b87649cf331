"""The update that the device computes for every sampler; `tables.py` has its formula.

All arithmetic is float32 and elementwise, with one row per seat: no shape depends on a sampler, a seat's
result depends on its own values only, and no matrix unit rounds the sums.
"""

from __future__ import annotations

from collections.abc import Iterable

import jax
import jax.numpy as jnp

from sdjax_engine.samplers.tables import HISTORY, Column


def empty_history(x: jax.Array) -> jax.Array:
    """Return the empty history `(seats, HISTORY, …)` for latents `x` of `(seats, …)`."""
    return jnp.zeros((x.shape[0], HISTORY, *x.shape[1:]), jnp.float32)


def network_input(x: jax.Array, row: jax.Array) -> jax.Array:
    """Return s·x, float32, for latents `x` of `(seats, …)` and `row` of `(seats, ROW)`."""
    return _weight(row, Column.INPUT_SCALE, x) * x.astype(jnp.float32)


def timestep(row: jax.Array) -> jax.Array:
    """Return the network's timestep, float32 `(seats,)`, for `row` of `(seats, ROW)`."""
    return row[:, Column.TIMESTEP]


def advance(  # noqa: PLR0917 – the tensors of one formula, in its order
    x: jax.Array, r: jax.Array, history: jax.Array, m: jax.Array, z: jax.Array, row: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return (x', r', history') after one evaluation of the network.

    `x`, `r`, the network's output `m` and the noise `z` are `(seats, …)`, `history` is
    `(seats, HISTORY, …)` with h_1 first, `row` is `(seats, ROW)`. A term of weight zero is not read, so that
    values of an earlier image in the seat, NaN included, do not reach the next image.
    """
    x, r, m, z = (array.astype(jnp.float32) for array in (x, r, m, z))
    h_0 = _mix(row, Column.P, (x, m))
    terms = (x, r, h_0, *(history[:, age] for age in range(HISTORY)), z)
    history = jnp.concatenate([h_0[:, None], history[:, : HISTORY - 1]], axis=1)
    return _mix(row, Column.X, terms), _mix(row, Column.R, terms), history


def _mix(row: jax.Array, first: Column, terms: Iterable[jax.Array]) -> jax.Array:
    """Sum `terms` with the weights in `row`, starting at column `first`."""
    total: jax.Array | None = None
    for offset, term in enumerate(terms):
        weight = _weight(row, first + offset, term)
        part = jnp.where(weight == 0, 0.0, weight * term)
        total = part if total is None else total + part
    assert total is not None
    return total


def _weight(row: jax.Array, column: int, like: jax.Array) -> jax.Array:
    """Return one column of `row` as `(seats, 1, …)`, to be multiplied with `like`."""
    return row[:, column].reshape(-1, *[1] * (like.ndim - 1))
