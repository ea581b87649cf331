"""Whether the devices have done their work is known without waiting for it."""

from __future__ import annotations

from typing import cast

import jax
import jax.numpy as jnp
import numpy as np

from sdjax_engine.lane.device_lane import Picture, Work
from sdjax_engine.lane.programs import Estimates
from sdjax_engine.lane.runs import Run, are_ready

LONG = 60_000  # turns of the loop; a second or so
WIDTH = 64  # enough work that XLA returns from the call before it is done


@jax.jit
def walk(x: jax.Array, turns: jax.Array) -> jax.Array:
    """Return x + turns."""
    return cast("jax.Array", jax.lax.fori_loop(0, turns, lambda _, x: x @ jnp.eye(WIDTH) + 1, x))


def walked(turns: int) -> jax.Array:
    """Return the end of a walk, which may be under way."""
    return walk(np.zeros((WIDTH, WIDTH), np.float32), np.int32(turns))


def test_work_is_ready_once_everything_that_is_read_of_it_has_been_made() -> None:
    done = walked(1).block_until_ready()
    parts = {"latents": done, "pixels": done, "finite": done, "scores": done, "probabilities": done}
    ready: list[Work] = [Picture(**parts), Estimates(rows=done), Run(done=done, rows=1)]
    busy = walked(LONG)
    waited_for: list[Work] = [
        *(Picture(**{**parts, part: busy}) for part in ("pixels", "finite", "scores", "probabilities")),
        Estimates(rows=busy),
        Run(done=busy, rows=1),
    ]
    assert [work.ready for work in waited_for] == [False] * 6
    busy.block_until_ready()
    assert all(work.ready for work in [*ready, *waited_for])


def test_nobody_waits_for_an_array_that_is_missing_or_deleted() -> None:
    deleted = walked(1)
    deleted.delete()
    assert are_ready([None, deleted])
    busy = walked(LONG)
    assert not are_ready([None, deleted, busy])
    busy.block_until_ready()
