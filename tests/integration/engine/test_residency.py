"""Models beyond the devices' memory: evicted and loaded again, with bit-equal pictures."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.monitoring
import numpy as np
import pytest
from checkpoints import make_tiny_checkpoint
from engines import PLAIN, SMALLEST, TINY, fingerprint, like

from sdjax_engine.compiling.compiler import Compiler, Program
from sdjax_engine.engine import Engine
from sdjax_engine.errors import DevicesFailed
from sdjax_engine.lane.device_lane import DeviceLane
from sdjax_engine.memory import devices
from sdjax_engine.memory.residency import Need, Residency, Transport
from sdjax_engine.model.loaded import LoadedModel
from sdjax_engine.request import Lane
from sdjax_engine.scheduler.lane_queue import LaneQueue, Seats
from sdjax_engine.weights import load_checkpoint

DEADLINE = 120.0
SEATS_PER_DEVICE = 2
MODELS = ("tiny", "other")
REQUESTS = [like(model=model, num_inference_steps=3) for model in MODELS * 2]

OpenBoth = Callable[[Residency], Engine]


class SharedCompiler(Compiler):
    """Gives both models the programs of one: they have the same shapes, and parameters are arguments."""

    def compile(self, name: str, *arguments: Any, **options: Any) -> Program:
        return super().compile(name.replace("other", "tiny"), *arguments, **options)


@pytest.fixture(scope="module")
def sources(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    other = make_tiny_checkpoint(tmp_path_factory.mktemp("other") / "tiny", seed=100, **SMALLEST)
    return {"tiny": checkpoint, "other": other}


@pytest.fixture
def open_both(
    sources: dict[str, Path], compiler: Compiler, device_lanes: dict[Lane, DeviceLane]
) -> Iterator[OpenBoth]:
    """Opens an engine of two models over a residency, with one guided lane each and compiled programs."""
    shared = SharedCompiler(mesh=compiler.mesh, report=compiler.report)
    shared._programs.update(compiler._programs)
    opened: list[Engine] = []

    def open_one(residency: Residency) -> Engine:
        models, queues = {}, {}
        for name, source in sources.items():
            arrival = residency.arrival(name)
            checkpoint = load_checkpoint(str(source), expect=arrival.expect, put=arrival.put)
            offer = dataclasses.replace(TINY, model=name)
            models[name] = LoadedModel(offer, checkpoint, shared, residency=residency, arrival=arrival.owner)
            lane = dataclasses.replace(PLAIN.lane, model=name)
            device = DeviceLane(lane, models[name], seats_per_device=SEATS_PER_DEVICE, compiler=shared)
            assert residency.claim(lane, device.need)
            device.reset()
            seats: Seats[Any] = Seats(
                devices=device.seats // SEATS_PER_DEVICE,
                seats_per_device=SEATS_PER_DEVICE,
            )
            queues[lane] = LaneQueue(device=device, seats=seats)
        opened.append(Engine(models, queues, time.perf_counter))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close(drain=False)


def paint_in_turn(both: Engine) -> list[str]:
    return [fingerprint(both.submit(request).result(DEADLINE)) for request in REQUESTS]


def test_an_engine_with_memory_for_one_of_two_models_paints_the_same_pictures(
    open_both: OpenBoth, compiler: Compiler
) -> None:
    roomy = Residency(compiler.mesh)
    expected = paint_in_turn(open_both(roomy))
    assert len(set(expected)) == 2, "the two models paint differently"
    narrow = Residency(compiler.mesh, roomy.taken - 1)
    both = open_both(narrow)
    models = list(both._models.values())
    compiled: list[str] = []

    def listen(name: str, _seconds: float, **_details: object) -> None:
        if "compile" in name:
            compiled.append(name)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        for _ in range(2):
            assert paint_in_turn(both) == expected
            assert [model._parameters.resident for model in models] == [False, True]
            assert narrow.taken <= roomy.taken - 1
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert compiled == []
    assert narrow.move_seconds("tiny") > 0 == narrow.move_seconds("other")


def tree(mesh: jax.sharding.Mesh, residency: Residency, size: int) -> dict[str, Any]:
    arrival = residency.arrival("a tree")
    arrival.expect(4 * size)
    return {str(index): arrival.put(np.full((size,), index, np.uint8)) for index in range(4)}


@pytest.mark.parametrize("pinned", [True, False])
def test_evicted_parameters_are_freed_on_the_devices_and_restored_unchanged(
    pinned: bool, compiler: Compiler
) -> None:
    residency = Residency(compiler.mesh, 100, pinned=pinned)
    first = residency.adopt("first", tree(compiler.mesh, residency, 15))
    second = residency.adopt("second", tree(compiler.mesh, residency, 20))
    assert (first.resident, second.resident) == (True, False)
    assert residency.lines() == [
        "1 model of 2 is on the devices: first; in the host's memory until used: second"
    ]
    for away, there in ((first, second), (second, first), (first, second)):
        old = jax.tree.leaves(away.arrays)
        residency.bring(there.name)
        assert all(leaf.is_deleted() for leaf in old)
        assert (away.resident, there.resident) == (False, True)
        with pytest.raises(RuntimeError, match=f"the parameters of {away.name} are not on the devices"):
            _ = away.arrays
        for index, leaf in enumerate(there.arrays.values()):
            assert leaf.sharding == devices.replicate(np.zeros(1), compiler.mesh).sharding
            assert np.asarray(leaf).tolist() == [index] * (there.size // 4)


def test_queued_work_completes_although_its_parameters_are_evicted(compiler: Compiler) -> None:
    residency = Residency(compiler.mesh, 5 * 2**20)
    held = residency.adopt(
        "first", {"a": devices.replicate(np.ones((1024, 1024), np.float32), compiler.mesh)}
    )
    residency.adopt("second", tree(compiler.mesh, residency, 2**19))
    power = jax.jit(lambda a: jax.lax.fori_loop(0, 20, lambda _, b: b @ a / 1024, a))
    result = power(held.arrays["a"])
    residency.bring("second")
    assert not held.resident
    assert (np.asarray(result) == 1).all()


def test_a_model_that_never_fits_raises_one_sentence(compiler: Compiler) -> None:
    residency = Residency(compiler.mesh, 2**20)
    assert residency.claim("a lane", Need(held=2**18))
    arrays = tree(compiler.mesh, residency, 2**18)
    with pytest.raises(DevicesFailed, match=r"^The parameters of large take 1\.0 MiB beside 0\.2 MiB for"):
        residency.adopt("large", arrays)


def test_a_refused_model_leaves_nothing_on_the_devices(compiler: Compiler) -> None:
    residency = Residency(compiler.mesh, 100)
    arrival = residency.arrival("large")
    arrival.expect(40)
    placed = arrival.put(np.zeros(40, np.uint8))
    arrival.expect(200)  # with its LoRAs
    arrays = {"a": placed, "b": arrival.put(np.zeros(160, np.uint8))}
    with pytest.raises(DevicesFailed):
        residency.adopt("large", arrays, arrival=arrival.owner)
    assert residency.taken == 0
    assert placed.is_deleted(), "who keeps the error or the arrays keeps no memory that no account has"


def test_a_model_that_needs_all_memory_never_shares_the_devices_again(compiler: Compiler) -> None:
    residency = Residency(compiler.mesh)
    first = residency.adopt("first", tree(compiler.mesh, residency, 10))
    second = residency.adopt("second", tree(compiler.mesh, residency, 10))
    assert residency.leave_alone("second")
    assert not residency.leave_alone("second")
    residency.bring("first")
    assert (first.resident, second.resident) == (True, False)


def test_an_arriving_model_is_in_the_account_from_its_first_byte(compiler: Compiler) -> None:
    residency = Residency(compiler.mesh, 100)
    residency.adopt("first", tree(compiler.mesh, residency, 10))
    arrival = residency.arrival("second")
    arrival.expect(45)
    arrival.expect(50)
    assert residency.taken == 90
    arrival.expect(70)  # there is no room for its LoRAs: what was placed stays in the account
    assert residency.taken == 90
    arrival.expect(50)
    assert not residency.claim("a lane", Need(held=20))
    parameters = residency.adopt("second", {"a": arrival.put(np.zeros(50, np.uint8))}, arrival=arrival.owner)
    assert (residency.taken, parameters.resident) == (90, True)
    late = residency.arrival("third")
    late.expect(20)
    assert residency.taken == 90, "it is read into the host's memory"
    del late
    never = residency.arrival("fourth")
    never.expect(10)
    assert residency.taken == 100
    del never
    assert residency.taken == 90, "a model that is never adopted gives its memory back"


def test_a_claim_evicts_the_models_that_it_displaces_before_it_is_granted(compiler: Compiler) -> None:
    residency = Residency(compiler.mesh, 100)
    first, second = (
        residency.adopt(name, tree(compiler.mesh, residency, 10)) for name in ("first", "second")
    )
    arrays = jax.tree.leaves(first.arrays)
    assert residency.claim("a lane", Need(held=50))
    assert residency.taken <= 100
    assert all(array.is_deleted() for array in arrays)
    assert (first.resident, second.resident) == (False, True)


@pytest.mark.parametrize("why", ["a claim", "another model"])
def test_an_eviction_that_raises_leaves_in_the_account_what_it_leaves_on_the_devices(
    why: str, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    residency = Residency(compiler.mesh, 100)
    first, second = (
        residency.adopt(name, tree(compiler.mesh, residency, size))
        for name, size in (("first", 10), ("second", 12))
    )
    assert residency.claim("a lane", Need(held=10) if why == "a claim" else Need())
    if why == "another model":
        third = residency.adopt("third", tree(compiler.mesh, residency, 10))
        assert not third.resident
    taken, to_host, copied = residency.taken, Transport.to_host, []

    def run_out(transport: Transport, array: Any) -> Any:
        copied.append(array)
        if len(copied) == 2:
            raise MemoryError
        return to_host(transport, array)

    monkeypatch.setattr(Transport, "to_host", run_out)
    with pytest.raises(MemoryError):
        residency.claim("a lane", Need(held=45)) if why == "a claim" else residency.bring("third")
    assert residency.taken == taken
    assert residency.claim("a lane", Need(held=40)), "a later eviction does the rest"
    assert residency.taken == 88
    assert (first.resident, second.resident) == (False, True)
    residency.bring("first")
    assert [np.asarray(leaf).tolist() for leaf in first.arrays.values()] == [[each] * 10 for each in range(4)]


def test_a_model_that_no_memory_can_keep_beside_the_others_is_refused_in_a_sentence(
    compiler: Compiler,
) -> None:
    residency = Residency(compiler.mesh, 100, host=90)
    residency.adopt("first", tree(compiler.mesh, residency, 15))
    with pytest.raises(DevicesFailed, match=r"^The devices cannot hold second, .* offer fewer models\.$"):
        residency.adopt("second", tree(compiler.mesh, residency, 15))
    assert residency.taken == 60
