"""The time to move a model to the devices is measured; nobody waits for parameters that were evicted."""

from __future__ import annotations

import threading
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sdjax_engine.memory import devices
from sdjax_engine.memory.residency import Residency, Transport

DEADLINE = 60.0
SIDE = 64
BYTES = SIDE * SIDE * 4
LONG = 60_000  # turns of a loop; a second or so


@jax.jit
def walk(x: jax.Array, turns: jax.Array) -> jax.Array:
    """Return x + turns; with many turns the result is ready only after the call has returned."""
    return cast("jax.Array", jax.lax.fori_loop(0, turns, lambda _, x: x @ jnp.eye(SIDE) + 1, x))


class Slow(Transport):
    """A transport whose arrays arrive after `turns` turns of a loop; `latest` is the last array."""

    turns = 0
    latest: Any  # JAX's types leave `is_ready` out

    def to_devices(self, on_host: Any) -> jax.Array:
        self.latest = walk(np.asarray(on_host), np.int32(self.turns))
        return walk(self.latest, np.int32(0))


@pytest.fixture
def residency() -> Residency:
    """Room for one of two models, and the first is on the devices."""
    made = Residency(devices.mesh_over(jax.devices()[:1]), BYTES)
    for name in ("first", "second"):
        made.adopt(name, {"weights": np.zeros((SIDE, SIDE), np.float32)})
    return made


def slow(residency: Residency, name: str, turns: int) -> Slow:
    model = residency._models[name]
    model._transport = transport = Slow(devices.mesh_over(jax.devices()[:1]))
    transport.turns = turns
    return transport


def test_a_move_is_measured_until_the_last_array_has_arrived(residency: Residency) -> None:
    residency.bring("second")
    slow(residency, "first", LONG)
    residency.bring("first")
    assert residency._models["first"].is_on_its_way(residency._models["first"].arrays["weights"])
    residency.settle()
    assert not residency._models["first"].is_on_its_way(residency._models["first"].arrays["weights"])
    residency.bring("second")
    assert residency.move_seconds("first") > 0


def test_nobody_waits_for_parameters_that_are_evicted_on_their_way(residency: Residency) -> None:
    residency.bring("second")
    known = residency._seconds.get("first")
    transport = slow(residency, "first", LONG)
    residency.bring("first")
    residency.bring("second")
    residency.settle()
    assert not transport.latest.is_ready()
    assert residency._seconds.get("first") == known
    transport.latest.block_until_ready()


def test_nothing_is_deleted_while_it_is_asked_whether_it_has_arrived(residency: Residency) -> None:
    residency.bring("first")
    residency.settle()
    first = residency._models["first"]
    leaf = first.arrays["weights"]
    eviction = threading.Thread(target=residency.bring, args=("second",))
    with first._deleting:
        eviction.start()
        eviction.join(0.1)
        assert not leaf.is_deleted()
    eviction.join(DEADLINE)
    assert leaf.is_deleted()
    assert not first.is_on_its_way(leaf)
