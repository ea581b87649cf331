"""An engine paints when its first lane is ready; requests for other lanes wait for their lane."""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path

import numpy as np
import pytest
from engines import PLAIN, fingerprint, like, tiny_config
from PIL import Image as Pictures

from sdjax_engine.engine import Engine
from sdjax_engine.errors import DevicesFailed, EngineClosed, InvalidRequest
from sdjax_engine.images import encode_png
from sdjax_engine.lane import seat_count
from sdjax_engine.lane.device_lane import DeviceLane
from sdjax_engine.memory.ledger import Need
from sdjax_engine.memory.residency import Residency
from sdjax_engine.request import Lane, Request
from sdjax_engine.scheduler.thread import EngineThread
from sdjax_engine.startup import registry

DEADLINE = 120.0
UNGUIDED = like(guidance_scale=1.0)
LANES = {True: "tiny:16x16:guided", False: "tiny:16x16:unguided"}
PICTURES = "tiny:16x16 from pictures"


Open = Callable[..., Engine]


@pytest.fixture
def open_engine(checkpoint: Path, cache_dir: Path, device_lanes: dict[Lane, DeviceLane]) -> Iterator[Open]:
    """Opens engines for which every program is kept already, one at a time."""
    engines: list[Engine] = []

    def open_one(report: Callable[[str], None] = lambda _line: None) -> Engine:
        assert device_lanes
        (cache_dir / "usage.json").unlink(missing_ok=True)
        engines.append(Engine.open(tiny_config(checkpoint, cache_dir=cache_dir), report=report))
        return engines[-1]

    yield open_one
    for engine in engines:
        engine.close(drain=False)


class Gate:
    """Delays an opening until the gate is opened."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.reached = threading.Event()

    def wait(self) -> None:
        self.reached.set()
        assert self.opened.wait(DEADLINE)


@pytest.fixture
def late_lane(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """The unguided lane is not made ready before the gate is open."""
    gate, make = Gate(), DeviceLane.__init__

    def make_late(self: DeviceLane, lane: object, *arguments: object, **named: object) -> None:
        if str(lane) == LANES[False]:
            gate.wait()
        make(self, lane, *arguments, **named)

    monkeypatch.setattr(DeviceLane, "__init__", make_late)
    yield gate
    gate.opened.set()


@pytest.fixture
def late_pictures(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """The programs for start pictures are not compiled before the gate is open."""
    gate, make = Gate(), registry.compile_begin

    def make_late(*arguments: object) -> object:
        gate.wait()
        return make(*arguments)

    monkeypatch.setattr(registry, "compile_begin", make_late)
    yield gate
    gate.opened.set()


def from_picture(request: Request = PLAIN) -> Request:
    pixels = Pictures.linear_gradient("L").resize((16, 16)).convert("RGB")
    return dataclasses.replace(request, init_image=encode_png(np.asarray(pixels), request), strength=0.5)


def test_it_paints_while_the_rest_is_made_ready(open_engine: Open, late_lane: Gate) -> None:
    said: list[str] = []
    engine = open_engine(said.append)
    assert late_lane.reached.wait(DEADLINE)
    assert list(map(str, engine.ready_lanes)) == [LANES[True]]
    assert list(map(str, engine.lanes)) == [LANES[True], LANES[False]]
    assert engine.capacity(UNGUIDED.lane) == engine.capacity(PLAIN.lane) == 4
    assert engine.seconds_per_image(UNGUIDED.lane) is None
    waiting = engine.submit(UNGUIDED)
    given_up = engine.submit(UNGUIDED)
    engine.submit(PLAIN).result(DEADLINE)
    assert not waiting.done()
    assert engine.cancel(given_up)
    assert not engine.wait_until_ready(0)
    late_lane.opened.set()
    waited = waiting.result(DEADLINE)
    assert engine.wait_until_ready(DEADLINE)
    assert set(engine.ready_lanes) == set(engine.lanes)
    assert fingerprint(engine.submit(UNGUIDED).result(DEADLINE)) == fingerprint(waited)
    assert said[-1].startswith("everything ready after ")


def test_a_model_beyond_the_configured_memory_is_refused_with_the_key_that_helps(checkpoint: Path) -> None:
    config = tiny_config(checkpoint, cache_dir=None, device_memory=10_000)
    with pytest.raises(DevicesFailed, match=r"offer a smaller model, or raise device_memory_gib\.$"):
        Engine.open(config, report=lambda _line: None)


def test_before_a_close_nothing_else_is_made_ready(open_engine: Open, late_lane: Gate) -> None:
    said: list[str] = []
    engine = open_engine(said.append)
    assert late_lane.reached.wait(DEADLINE)
    engine.prepare_no_more()
    late_lane.opened.set()
    given_up = time.monotonic() + DEADLINE
    while not any(line.startswith(f"ready for {LANES[False]}") for line in said):
        assert time.monotonic() < given_up
        time.sleep(0.01)
    assert not engine.wait_until_ready(1.0)
    engine.close(drain=False)
    assert [line.partition(" after ")[0] for line in said if line.startswith("ready for ")] == [
        f"ready for {LANES[True]}",
        f"ready for {LANES[False]}",
    ]


def test_a_step_opens_what_requests_wait_for(open_engine: Open, late_lane: Gate, late_pictures: Gate) -> None:
    engine = open_engine()
    assert late_lane.reached.wait(DEADLINE)
    assert engine._registry is not None
    opens = {step.name: step.opens for step in engine._registry.steps(engine._thread) if step.opens}
    guided, unguided = PLAIN.lane, UNGUIDED.lane
    assert opens == {
        LANES[False]: {(unguided, False), (unguided, True)},
        PICTURES: {(guided, True), (unguided, True)},
    }


def test_a_draining_close_makes_ready_what_a_request_waits_for(open_engine: Open, late_lane: Gate) -> None:
    engine = open_engine()
    assert late_lane.reached.wait(DEADLINE)
    waiting = engine.submit(from_picture(PLAIN))
    engine.prepare_no_more()
    late_lane.opened.set()
    engine.close(drain=True)
    assert waiting.result(0).pixels.any()


def test_a_request_with_a_start_picture_waits_until_pictures_can_be_encoded(
    open_engine: Open, late_pictures: Gate
) -> None:
    engine = open_engine()
    waiting = [engine.submit(from_picture(request)) for request in (PLAIN, UNGUIDED)]
    engine.submit(PLAIN).result(DEADLINE)
    engine.submit(UNGUIDED).result(DEADLINE)
    assert not any(future.done() for future in waiting)
    late_pictures.opened.set()
    early = [fingerprint(future.result(DEADLINE)) for future in waiting]
    assert engine.wait_until_ready(DEADLINE)
    late = [engine.submit(from_picture(request)).result(DEADLINE) for request in (PLAIN, UNGUIDED)]
    assert early == list(map(fingerprint, late))
    assert len(set(early)) == 2


def test_a_lane_without_memory_for_start_pictures_paints_from_noise_and_other_lanes_start_from_pictures(
    open_engine: Open, late_pictures: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine()
    refused, granted = (engine.submit(from_picture(request)) for request in (PLAIN, UNGUIDED))
    assert late_pictures.reached.wait(DEADLINE)
    claim = Residency.claim

    def claim_but_for_one(residency: Residency, who: Hashable, need: Need, **options: bool) -> bool:
        return who != PLAIN.lane and claim(residency, who, need, **options)

    monkeypatch.setattr(Residency, "claim", claim_but_for_one)
    late_pictures.opened.set()
    with pytest.raises(DevicesFailed, match=f"no memory for start pictures of {PLAIN.lane}"):
        refused.result(DEADLINE)
    granted.result(DEADLINE)
    engine.submit(PLAIN).result(DEADLINE)


def test_a_lane_that_cannot_be_made_ready_fails_alone(
    open_engine: Open, monkeypatch: pytest.MonkeyPatch, late_lane: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    engine = open_engine()
    waiting = engine.submit(UNGUIDED)
    assert late_lane.reached.wait(DEADLINE)

    def fail(*_arguments: object, **_options: object) -> None:
        raise ValueError("its programs are wrong")

    monkeypatch.setattr("sdjax_engine.lane.device_lane.compile_lane", fail)
    with caplog.at_level(logging.CRITICAL):
        late_lane.opened.set()
        with pytest.raises(DevicesFailed, match="its programs are wrong"):
            waiting.result(DEADLINE)
        assert engine.wait_until_ready(DEADLINE)
    assert list(map(str, engine.lanes)) == [LANES[True]]
    engine.submit(PLAIN).result(DEADLINE)
    with pytest.raises(InvalidRequest, match="unguided"):
        engine.submit(UNGUIDED)
    assert engine._registry is not None
    # Each lane has taken one request, and equal counts keep their order: the refused request does not count.
    assert engine._registry.usage.in_order(list(LANES.values())) == list(LANES.values())


def test_a_lane_that_failed_paints_once_a_change_of_models_has_made_it_ready(
    open_engine: Open, checkpoint: Path, cache_dir: Path, late_lane: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    engine = open_engine()
    assert late_lane.reached.wait(DEADLINE)

    def fail(*_arguments: object, **_options: object) -> None:
        raise ValueError("its programs are wrong")

    with pytest.MonkeyPatch.context() as broken, caplog.at_level(logging.CRITICAL):
        broken.setattr("sdjax_engine.lane.device_lane.compile_lane", fail)
        late_lane.opened.set()
        assert engine.wait_until_ready(DEADLINE)
    assert list(map(str, engine.lanes)) == [LANES[True]]
    specs = tiny_config(checkpoint, cache_dir=cache_dir).models
    assert engine.change_models(engine.read_models(specs)) == {}
    assert engine.wait_until_ready(DEADLINE)
    assert set(engine.lanes) == set(engine.ready_lanes)
    engine.submit(UNGUIDED).result(DEADLINE)


def test_a_draining_close_during_a_change_of_models_answers_requests_that_wait(
    open_engine: Open, checkpoint: Path, cache_dir: Path, late_lane: Gate
) -> None:
    engine = open_engine()
    waiting = engine.submit(from_picture(UNGUIDED))  # needs the lane being opened, and then start pictures
    assert late_lane.reached.wait(DEADLINE)
    change = engine.read_models(tiny_config(checkpoint, cache_dir=cache_dir).models)

    def change_models() -> None:
        with pytest.raises(EngineClosed):
            engine.change_models(change)

    changing = threading.Thread(target=change_models, daemon=True)
    closing = threading.Thread(target=engine.close, kwargs={"drain": True}, daemon=True)
    for thread in (changing, closing):
        thread.start()
        time.sleep(0.2)  # it waits for the step under way
    late_lane.opened.set()
    for thread in (changing, closing):
        thread.join(DEADLINE)
        assert not thread.is_alive()
    assert waiting.done()


def test_the_most_used_lanes_are_opened_first(checkpoint: Path, cache_dir: Path, open_engine: Open) -> None:
    engine = open_engine()
    for _ in range(2):
        engine.submit(from_picture(UNGUIDED)).result(DEADLINE)
    engine.close(drain=True)
    said: list[str] = []
    config = tiny_config(checkpoint, cache_dir=cache_dir)
    with Engine.open(config, report=said.append) as again:
        assert [str(again.lanes[0])] == [LANES[False]]
        assert again.wait_until_ready(DEADLINE)
    ready = [line.split(" after ")[0] for line in said if line.startswith("ready for ")]
    assert ready == [f"ready for {name}" for name in (LANES[False], PICTURES, LANES[True])]


def test_a_close_waits_only_for_the_running_compilation(open_engine: Open, late_lane: Gate) -> None:
    engine = open_engine()
    waiting = engine.submit(UNGUIDED)
    assert late_lane.reached.wait(DEADLINE)
    closing = threading.Thread(target=engine.close, kwargs={"drain": False})
    closing.start()
    while not waiting.done():
        time.sleep(0.01)
    assert waiting.cancelled()
    with pytest.raises(EngineClosed):
        engine.submit(PLAIN)
    late_lane.opened.set()
    closing.join(DEADLINE)
    assert not closing.is_alive()
    assert engine.wait_until_ready(0)


def test_a_close_from_a_callback_ends_while_a_lane_takes_memory(
    open_engine: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, opened = Gate(), seat_count.opened

    def open_late(device: DeviceLane, lane: Lane, residency: Residency) -> DeviceLane:
        if str(lane) == LANES[False]:
            gate.wait()
        return opened(device, lane, residency)

    monkeypatch.setattr(seat_count, "opened", open_late)
    engine = open_engine()
    assert gate.reached.wait(DEADLINE)

    def close(_progress: object) -> None:
        gate.opened.set()  # its chore waits for this thread
        engine.close(drain=False)

    with pytest.raises(CancelledError):
        engine.submit(PLAIN, on_progress=close).result(DEADLINE)
    engine._thread._thread.join(10.0)
    assert not engine._thread._thread.is_alive()


def test_a_close_leaves_no_thread_to_the_end_of_the_process(
    open_engine: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that frees arrays while the interpreter shuts down would abort the process."""

    def late(work: Callable[..., None]) -> Callable[..., None]:
        def ends_late(*arguments: object) -> None:
            work(*arguments)
            time.sleep(0.3)

        return ends_late

    monkeypatch.setattr(EngineThread, "_guard", late(EngineThread._guard))
    before = set(threading.enumerate())
    engine = open_engine()
    engine.submit(PLAIN).result(DEADLINE)
    engine.close(drain=False)
    left = {each.name.partition("_")[0] for each in set(threading.enumerate()) - before}
    assert left <= {"sdjax-decode"}, "the interpreter itself waits for a pool's threads"
