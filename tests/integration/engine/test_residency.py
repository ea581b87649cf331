"""Models beyond the devices' memory: evicted and loaded again, with bit-equal pictures."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
from sdjax_engine.memory.ledger import Need
from sdjax_engine.memory.residency import ModelParameters, Residency, Transport
from sdjax_engine.model.loaded import DECODING, TEXTS, LoadedModel
from sdjax_engine.request import Lane, Trouble
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


@contextmanager
def no_compilation() -> Iterator[None]:
    compiled: list[str] = []

    def listen(name: str, _seconds: float, **_details: object) -> None:
        if "compile" in name:
            compiled.append(name)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert compiled == []


@dataclass(frozen=True, kw_only=True)
class Roomy:
    """What two models take without a limit, and the pictures that they paint."""

    reserved: int
    size: int
    at_once: int
    pictures: list[str]

    def budget(self, memory: str) -> int:
        """The bytes of a budget that a test names."""
        of_models = {
            "a byte less": 2 * self.size - 1,
            "a model and a half": self.size * 3 // 2,
            "the largest group": self.at_once,
        }
        return self.reserved + of_models[memory]


@pytest.fixture
def roomy(open_both: OpenBoth, compiler: Compiler) -> Roomy:
    residency = Residency(compiler.mesh)
    both = open_both(residency)
    pictures = paint_in_turn(both)
    assert len(set(pictures)) == 2, "the two models paint differently"
    parameters = both._models["tiny"]._parameters
    assert parameters.at_once < parameters.size
    reserved = residency.taken - 2 * parameters.size
    return Roomy(reserved=reserved, size=parameters.size, at_once=parameters.at_once, pictures=pictures)


@pytest.mark.parametrize("memory", ["a byte less", "a model and a half", "the largest group"])
def test_an_engine_without_memory_for_all_parameters_paints_the_same_pictures(
    memory: str, open_both: OpenBoth, roomy: Roomy, compiler: Compiler
) -> None:
    narrow = Residency(compiler.mesh, roomy.budget(memory))
    both = open_both(narrow)
    with no_compilation():
        for _ in range(2):
            assert paint_in_turn(both) == roomy.pictures
            assert narrow.taken <= roomy.budget(memory)
    assert not narrow.has("tiny"), "not all of it"
    assert narrow.has("other", DECODING)
    assert narrow.move_seconds("tiny") > 0


def test_text_encoders_leave_while_a_batch_paints_and_come_back_for_texts_that_are_not_known(
    open_both: OpenBoth, roomy: Roomy, compiler: Compiler
) -> None:
    narrow = Residency(compiler.mesh, roomy.budget("the largest group"))
    both = open_both(narrow)
    [lane] = [each for each in both.ready_lanes if each.model == "tiny"]
    device, model = both._thread.queues[lane].device, both._models["tiny"]
    first, second, third = (
        model.prepare(like(prompt=prompt, num_inference_steps=3)) for prompt in ("a star", "a moon", "a sun")
    )
    device.admit({0: first}, (), [second])
    moved = [str(group.key) for group in device.take_moves()]
    assert moved == ["the text encoders of tiny", "the denoiser of tiny"]
    device.denoise({0: (0, 1)})
    assert not narrow.has("tiny", TEXTS)
    assert not device.knows_texts(third)
    device.admit({1: second})
    device.denoise({0: (1, 3), 1: (0, 3)})
    assert device.take_moves() == (), "the waiting text was encoded with the first"
    pictures = device.decode([0, 1])
    assert [str(group.key) for group in device.take_moves()] == ["the autoencoder of tiny"]
    device.admit({2: third})
    assert [str(group.key) for group in device.take_moves()] == moved
    pictures[0].fetch()


def refuse(_transport: Transport, _on_host: Any) -> Any:
    raise RuntimeError("lost the host")


def lose(transport: Transport, on_host: Any) -> Any:
    """Return an array whose move is queued, and fails before it has arrived."""

    def fail(array: Any) -> Any:
        raise RuntimeError("lost on the way")

    def move(array: Any, late: Any) -> Any:
        moved = array + (late[0, 0] * 0).astype(array.dtype)
        return jax.pure_callback(fail, jax.ShapeDtypeStruct(array.shape, array.dtype), moved)

    # XLA's client for the CPU queues what depends on work that is not done yet, and calls the rest at once.
    late = jax.jit(lambda a: jax.lax.fori_loop(0, 40, lambda _, b: b @ a / 1024, a))(np.ones((1024, 1024)))
    return jax.device_put(jax.jit(move)(np.asarray(on_host), late), transport.sharding)


@pytest.mark.parametrize(("failing", "memory"), [(refuse, "the largest group"), (lose, "a model and a half")])
@pytest.mark.parametrize("when", range(1, 80, 13))
def test_a_move_that_fails_half_way_loses_no_picture(
    *,
    when: int,
    memory: str,
    failing: Callable[[Transport, Any], Any],
    open_both: OpenBoth,
    roomy: Roomy,
    compiler: Compiler,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    narrow = Residency(compiler.mesh, roomy.budget(memory))
    both = open_both(narrow)
    to_devices, moved = Transport.to_devices, []

    def fail_once(transport: Transport, on_host: Any) -> Any:
        moved.append(on_host)
        return (failing if len(moved) == when else to_devices)(transport, on_host)

    monkeypatch.setattr(Transport, "to_devices", fail_once)
    assert paint_in_turn(both) == roomy.pictures
    assert len(moved) > when
    assert narrow.taken <= roomy.budget(memory)


@pytest.mark.parametrize("where", ["to_host", "to_devices"])
def test_a_move_without_memory_costs_seats_and_no_picture(
    where: str,
    open_both: OpenBoth,
    roomy: Roomy,
    compiler: Compiler,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    narrow = Residency(compiler.mesh, roomy.budget("a model and a half"))
    both = open_both(narrow)
    move, moved = getattr(Transport, where), []

    def run_out_once(transport: Transport, array: Any) -> Any:
        moved.append(array)
        if len(moved) == 3:
            raise MemoryError
        return move(transport, array)

    monkeypatch.setattr(Transport, where, run_out_once)
    troubles: list[Any] = []
    for request in REQUESTS:
        image = both.submit(request, on_progress=lambda told: troubles.append(told.trouble)).result(DEADLINE)
        assert image.pixels.any()
    assert Trouble.OUT_OF_MEMORY in troubles
    assert Trouble.FAILED not in troubles


def tree(residency: Residency, size: int) -> dict[str, Any]:
    arrival = residency.arrival("a tree")
    arrival.expect(4 * size)
    leaves = {str(index): arrival.put(np.full((size,), index, np.uint8)) for index in range(4)}
    return {"parameters": leaves}


def arrays_of(parameters: ModelParameters) -> Any:
    """The arrays of a model of one group."""
    return parameters.groups["parameters"].arrays


@pytest.mark.parametrize("pinned", [True, False])
def test_evicted_parameters_are_freed_on_the_devices_and_restored_unchanged(
    pinned: bool, compiler: Compiler
) -> None:
    residency = Residency(compiler.mesh, 100, pinned=pinned)
    first = residency.adopt("first", tree(residency, 15))
    second = residency.adopt("second", tree(residency, 20))
    assert (first.resident, second.resident) == (True, False)
    assert residency.lines() == ["on the devices: first; in the host's memory until used: second"]
    for away, there in ((first, second), (second, first), (first, second)):
        old = jax.tree.leaves(arrays_of(away))
        residency.bring(there.name)
        assert all(leaf.is_deleted() for leaf in old)
        assert (away.resident, there.resident) == (False, True)
        with pytest.raises(RuntimeError, match=f"the parameters of {away.name} are not on the devices"):
            arrays_of(away)
        for index, leaf in enumerate(arrays_of(there).values()):
            assert leaf.sharding == devices.replicate(np.zeros(1), compiler.mesh).sharding
            assert np.asarray(leaf).tolist() == [index] * (there.size // 4)


def test_queued_work_completes_although_its_parameters_are_evicted(compiler: Compiler) -> None:
    residency = Residency(compiler.mesh, 5 * 2**20)
    ones = devices.replicate(np.ones((1024, 1024), np.float32), compiler.mesh)
    held = residency.adopt("first", {"parameters": ones})
    residency.adopt("second", tree(residency, 2**19))
    power = jax.jit(lambda a: jax.lax.fori_loop(0, 20, lambda _, b: b @ a / 1024, a))
    result = power(arrays_of(held))
    residency.bring("second")
    assert not held.resident
    assert (np.asarray(result) == 1).all()


def test_a_model_that_never_fits_raises_one_sentence(compiler: Compiler) -> None:
    residency = Residency(compiler.mesh, 2**20)
    assert residency.claim("a lane", Need(held=2**18))
    arrays = tree(residency, 2**18)
    with pytest.raises(DevicesFailed, match=r"^The parameters of large take 1\.0 MiB beside 0\.2 MiB for"):
        residency.adopt("large", arrays)


def test_a_refused_model_leaves_nothing_on_the_devices(compiler: Compiler) -> None:
    residency = Residency(compiler.mesh, 100)
    arrival = residency.arrival("large")
    arrival.expect(40)
    placed = arrival.put(np.zeros(40, np.uint8))
    arrival.expect(200)  # with its LoRAs
    arrays = {"parameters": [placed, arrival.put(np.zeros(160, np.uint8))]}
    with pytest.raises(DevicesFailed):
        residency.adopt("large", arrays, arrival=arrival.owner)
    assert residency.taken == 0
    assert placed.is_deleted(), "who keeps the error or the arrays keeps no memory that no account has"


def test_a_model_that_needs_all_memory_never_shares_the_devices_again(compiler: Compiler) -> None:
    residency = Residency(compiler.mesh)
    first = residency.adopt("first", tree(residency, 10))
    second = residency.adopt("second", tree(residency, 10))
    assert residency.leave_alone("second")
    assert not residency.leave_alone("second")
    residency.bring("first")
    assert (first.resident, second.resident) == (True, False)


def test_an_arriving_model_is_in_the_account_from_its_first_byte(compiler: Compiler) -> None:
    residency = Residency(compiler.mesh, 100)
    residency.adopt("first", tree(residency, 10))
    arrival = residency.arrival("second")
    arrival.expect(45)
    arrival.expect(50)
    assert residency.taken == 90
    arrival.expect(70)  # there is no room for its LoRAs: what was placed stays in the account
    assert residency.taken == 90
    arrival.expect(50)
    assert not residency.claim("a lane", Need(held=20))
    arrays = {"parameters": arrival.put(np.zeros(50, np.uint8))}
    parameters = residency.adopt("second", arrays, arrival=arrival.owner)
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


def test_an_arriving_model_leaves_room_for_groups_that_are_away(compiler: Compiler) -> None:
    residency = Residency(compiler.mesh, 100, pinned=False)
    groups = {"denoiser": np.zeros(60, np.uint8), "texts": np.zeros(50, np.uint8)}
    residency.adopt("first", groups)
    residency.bring("first", "texts")
    arrival = residency.arrival("second")
    arrival.expect(45)
    assert isinstance(arrival.put(np.zeros(45, np.uint8)), np.ndarray), "the denoiser needs 60 of 100 bytes"
    arrival.expect(40)
    assert isinstance(arrival.put(np.zeros(40, np.uint8)), jax.Array)
    residency.bring("first", "denoiser")
    assert residency.taken == 100


def test_a_model_whose_loras_find_no_room_is_never_on_the_devices_beyond_the_budget(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    residency, placed = Residency(compiler.mesh, 100, pinned=False), list[jax.Array]()
    arrival = residency.arrival("a model")
    arrival.expect(90)
    denoiser, texts = (arrival.put(np.zeros(size, np.uint8)) for size in (50, 40))
    arrival.expect(110)
    loras, to_devices = arrival.put(np.zeros(20, np.uint8)), Transport.to_devices
    placed += [denoiser, texts]

    def counted(transport: Transport, on_host: Any) -> jax.Array:
        placed.append(to_devices(transport, on_host))
        assert sum(each.nbytes for each in placed if not each.is_deleted()) <= 100
        return placed[-1]

    monkeypatch.setattr(Transport, "to_devices", counted)
    arrays = {"denoiser": [denoiser, loras], "texts": [texts]}
    residency.adopt("a model", arrays, arrival=arrival.owner)
    assert (residency.has("a model", "denoiser"), residency.has("a model", "texts")) == (True, False)


def test_a_claim_evicts_the_models_that_it_displaces_before_it_is_granted(compiler: Compiler) -> None:
    residency = Residency(compiler.mesh, 100)
    first, second = (residency.adopt(name, tree(residency, 10)) for name in ("first", "second"))
    arrays = jax.tree.leaves(arrays_of(first))
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
        residency.adopt(name, tree(residency, size)) for name, size in (("first", 10), ("second", 12))
    )
    assert residency.claim("a lane", Need(held=10) if why == "a claim" else Need())
    if why == "another model":
        third = residency.adopt("third", tree(residency, 10))
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
    assert [np.asarray(leaf).tolist() for leaf in arrays_of(first).values()] == [
        [each] * 10 for each in range(4)
    ]


def test_a_model_that_no_memory_can_keep_beside_the_others_is_refused_in_a_sentence(
    compiler: Compiler,
) -> None:
    residency = Residency(compiler.mesh, 100, host=90)
    residency.adopt("first", tree(residency, 15))
    with pytest.raises(DevicesFailed, match=r"^The devices cannot hold second, .* offer fewer models\.$"):
        residency.adopt("second", tree(residency, 15))
    assert residency.taken == 60
