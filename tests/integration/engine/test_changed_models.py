"""Models and LoRAs come and go while the engine paints."""

from __future__ import annotations

import dataclasses
import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compilations import counted_compilations
from engines import PLAIN, TINY, fingerprint, like, tiny_config
from lora_files import write_three
from safetensors.numpy import save_file

from sdjax_engine.config import ModelSpec
from sdjax_engine.engine import Engine
from sdjax_engine.errors import InvalidRequest, UnreadableCheckpoint
from sdjax_engine.lane.device_lane import DeviceLane
from sdjax_engine.memory.residency import Residency
from sdjax_engine.request import Lora
from sdjax_engine.startup.registry import Change, Registry, arrived
from sdjax_engine.startup.warm_up import WarmUp

DEADLINE = 120
LONG = like(num_inference_steps=48)


@pytest.fixture(scope="module")
def files(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_three(checkpoint, tmp_path_factory.mktemp("loras"))


@pytest.fixture(scope="module")
def said() -> list[str]:
    return []


@pytest.fixture(scope="module")
def engine(checkpoint: Path, cache_dir: Path, said: list[str]) -> Iterator[Engine]:
    config = tiny_config(checkpoint, cache_dir=cache_dir, start_pictures=False)
    with Engine.open(config, report=said.append) as engine:
        yield engine


@pytest.fixture
def plain(checkpoint: Path) -> ModelSpec:
    return ModelSpec(offer=TINY, source=str(checkpoint))


@pytest.fixture
def second(plain: ModelSpec) -> ModelSpec:
    return dataclasses.replace(plain, offer=dataclasses.replace(TINY, model="second"))


def taken_by(engine: Engine) -> int:
    """The bytes of each device that are in use."""
    assert engine._registry is not None
    return engine._registry.residency.taken


def wait_until(is_so: Callable[[], bool]) -> None:
    ends = time.monotonic() + DEADLINE
    while not is_so():
        assert time.monotonic() < ends
        time.sleep(0.01)


def change(engine: Engine, *specs: ModelSpec) -> None:
    assert engine.change_models(engine.read_models(specs)) == {}


@pytest.mark.usefixtures("slow_devices")
def test_a_model_comes_and_goes_while_another_paints(
    engine: Engine, plain: ModelSpec, second: ModelSpec
) -> None:
    assert engine.wait_until_ready(DEADLINE)
    lanes, taken = engine.lanes, taken_by(engine)
    before = fingerprint(engine.submit(PLAIN).result(DEADLINE))
    under_way = [engine.submit(LONG) for _ in range(5)]
    change(engine, plain, second)
    assert [offer.model for offer in engine.offers] == ["tiny", "second"]
    picture = engine.submit(like(model="second")).result(DEADLINE)
    assert fingerprint(picture) == before
    assert engine.wait_until_ready(DEADLINE)
    assert set(engine.ready_lanes) == set(engine.lanes)
    assert {lane.model for lane in engine.lanes} == {"tiny", "second"}
    assert taken_by(engine) > taken
    leaving = weakref.ref(engine._models["second"])
    change(engine, plain)
    assert all(future.result(DEADLINE).pixels.any() for future in under_way)
    with pytest.raises(InvalidRequest) as refused:
        engine.submit(like(model="second"))
    assert refused.value.problem == "model"
    assert set(engine.lanes) == set(engine.ready_lanes) == set(lanes)
    assert taken_by(engine) == taken
    gc.collect()
    assert leaving() is None, "something still holds the model that has left"
    assert fingerprint(engine.submit(PLAIN).result(DEADLINE)) == before


def test_a_request_whose_lane_is_not_ready_is_painted_before_its_model_leaves(
    engine: Engine, plain: ModelSpec, second: ModelSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, is_let = WarmUp._take, threading.Event()

    def later(warm_up: WarmUp) -> None:
        is_let.wait(DEADLINE)
        take(warm_up)

    monkeypatch.setattr(WarmUp, "_take", later)
    change(engine, plain, second)
    waiting = engine.submit(like(model="second"))
    leaving = threading.Thread(target=lambda: change(engine, plain), daemon=True)
    leaving.start()
    while "second" in [offer.model for offer in engine.offers]:
        time.sleep(0.01)
    assert not waiting.done()
    is_let.set()
    assert waiting.result(DEADLINE).pixels.any()
    leaving.join(DEADLINE)
    assert {lane.model for lane in engine.lanes} == {"tiny"}


@pytest.mark.usefixtures("slow_devices")
def test_loras_come_and_go_and_requests_under_way_keep_theirs(
    engine: Engine, plain: ModelSpec, files: dict[str, Path]
) -> None:
    with_loras = dataclasses.replace(
        plain, offer=dataclasses.replace(TINY, loras=tuple(files)), loras=files, lora_rank=5
    )
    bare = engine.submit(PLAIN).result(DEADLINE)
    change(engine, with_loras)
    adapted = like(loras=(Lora(name="one"),))
    picture = engine.submit(adapted).result(DEADLINE)
    without = engine.submit(PLAIN).result(DEADLINE)
    assert np.abs(picture.pixels.astype(int) - bare.pixels).max() > 8
    assert np.abs(without.pixels.astype(int) - bare.pixels).max() <= 1
    under_way = [engine.submit(like(LONG, loras=adapted.loras, seed=seed)) for seed in range(5)]
    closing = threading.Thread(target=lambda: change(engine, plain))
    closing.start()
    wait_until(lambda: not engine.offers)
    while_it_is_replaced = engine.submit(PLAIN)
    assert all(future.result(0).request.loras for future in under_way)
    assert fingerprint(while_it_is_replaced.result(DEADLINE)) == fingerprint(bare)
    closing.join(DEADLINE)
    with pytest.raises(InvalidRequest) as refused:
        engine.submit(adapted)
    assert refused.value.problem == "no_loras"
    assert fingerprint(engine.submit(PLAIN).result(DEADLINE)) == fingerprint(bare)


def test_other_embeddings_compile_nothing_and_mean_something_else(
    engine: Engine, plain: ModelSpec, tmp_path: Path
) -> None:
    values, cat = np.random.default_rng(3).normal(size=(5, 32)).astype(np.float32), tmp_path / "cat"
    asked, painted = like(prompt="a (red CAT:1.2) circle"), []
    change(engine, plain)
    bare = engine.submit(PLAIN).result(DEADLINE)
    for round_, files in enumerate(({"cat": values[:1]}, {"hat": values[1:2], "cat": values[2:]})):
        named = {name: cat / f"{name}{round_}.safetensors" for name in files}
        cat.mkdir(exist_ok=True)
        for name, vectors in files.items():
            save_file({"<word>": np.ascontiguousarray(vectors)}, named[name])
        offer = dataclasses.replace(TINY, embeddings=tuple(named))
        with counted_compilations() as made:
            change(engine, dataclasses.replace(plain, offer=offer, embeddings=named))
            picture = engine.submit(asked).result(DEADLINE)
            assert engine.wait_until_ready(DEADLINE)
        assert round_ == 0 or not made
        assert fingerprint(engine.submit(PLAIN).result(DEADLINE)) == fingerprint(bare)
        painted.append(picture)
    change(engine, plain)
    painted.append(engine.submit(asked).result(DEADLINE))
    first, *others = (each.pixels.astype(int) for each in painted)
    assert min(np.abs(first - other).max() for other in others) > 8
    counts = [0 if each.prompt is None else each.prompt.tokens for each in painted[:2]]
    assert counts[1] - counts[0] == 2  # three vectors in place of one


def test_a_model_that_cannot_be_read_changes_nothing(
    engine: Engine, plain: ModelSpec, second: ModelSpec, tmp_path: Path
) -> None:
    assert engine.wait_until_ready(DEADLINE)  # the change of another test may still make lanes ready
    lanes, taken = engine.lanes, taken_by(engine)
    missing = dataclasses.replace(second, source=str(tmp_path / "nothing"))
    no_lora = dataclasses.replace(
        plain, offer=dataclasses.replace(TINY, loras=("ink",)), loras={"ink": tmp_path / "no.safetensors"}
    )
    for broken in ([plain, missing], [no_lora]):
        with pytest.raises(UnreadableCheckpoint):
            engine.read_models(broken)
    assert engine.lanes == lanes
    wait_until(lambda: taken_by(engine) == taken)
    assert engine.submit(PLAIN).result(DEADLINE).pixels.any()


def test_a_change_of_models_holds_nobody_beyond_a_timeout(
    engine: Engine, plain: ModelSpec, second: ModelSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[bool] = []

    def while_models_change(registry: Registry, read: Change) -> object:
        told.append(engine.wait_until_ready(0))
        return arrived(registry, read)

    monkeypatch.setattr("sdjax_engine.engine.arrived", while_models_change)
    change(engine, plain, second)
    change(engine, plain)
    assert told == [False, False]


def test_after_the_start_the_engines_thread_alone_changes_what_the_devices_hold(
    engine: Engine, plain: ModelSpec, second: ModelSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert engine.wait_until_ready(DEADLINE)
    callers: dict[str, set[str]] = {}

    def note_callers(owner: type, name: str) -> None:
        method = getattr(owner, name)

        def noted(*arguments: Any, **options: Any) -> Any:
            callers.setdefault(name, set()).add(threading.current_thread().name)
            return method(*arguments, **options)

        monkeypatch.setattr(owner, name, noted)

    of_residency, of_lanes = ("claim", "release", "adopt", "drop", "bring", "expect"), ("reset", "free")
    for name in of_residency:
        note_callers(Residency, name)
    for name in of_lanes:
        note_callers(DeviceLane, name)
    change(engine, plain, second)
    assert engine.wait_until_ready(DEADLINE)
    assert engine.submit(like(model="second")).result(DEADLINE).pixels.any()
    change(engine, plain)
    assert callers == {name: {"sdjax-engine"} for name in (*of_residency, *of_lanes)}


def test_a_move_that_another_thread_wants_waits_for_the_run_that_is_being_queued(
    engine: Engine, plain: ModelSpec, second: ModelSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run's calls have the parameters that the move would free."""
    change(engine, plain, second)
    assert engine.wait_until_ready(DEADLINE)
    assert engine._registry is not None
    residency, intake = engine._registry.residency, engine._thread.intake
    movers: list[threading.Thread] = []
    denoise = DeviceLane.denoise

    def move_first(lane: DeviceLane, spans: Any) -> Any:
        if not movers:
            move = partial(residency.owner.do, partial(residency.leave_alone, "second"))
            movers.append(threading.Thread(target=move))
            movers[0].start()
            wait_until(lambda: bool(intake._chores))
        return denoise(lane, spans)

    monkeypatch.setattr(DeviceLane, "denoise", move_first)
    troubles: list[Any] = []
    future = engine.submit(LONG, on_progress=lambda progress: troubles.append(progress.trouble))
    assert future.result(DEADLINE).pixels.any()
    movers[0].join(DEADLINE)
    assert set(troubles) == {None}
    change(engine, plain)


def test_a_change_that_is_never_applied_gives_its_memory_back(
    engine: Engine, plain: ModelSpec, second: ModelSpec
) -> None:
    assert engine.wait_until_ready(DEADLINE)
    taken = taken_by(engine)
    read = engine.read_models([plain, second])
    assert taken_by(engine) > taken
    del read
    wait_until(lambda: taken_by(engine) == taken)


def test_programs_of_a_replaced_model_are_forgotten(
    engine: Engine, plain: ModelSpec, files: dict[str, Path]
) -> None:
    assert engine.wait_until_ready(DEADLINE)
    assert engine._registry is not None
    programs = engine._registry.compiler._programs
    gc.collect()
    before = len(programs)
    offer = dataclasses.replace(TINY, loras=tuple(files))
    change(engine, dataclasses.replace(plain, offer=offer, loras=files, lora_rank=5))
    assert engine.wait_until_ready(DEADLINE)
    change(engine, plain)
    assert engine.wait_until_ready(DEADLINE)
    gc.collect()
    assert len(programs) == before
