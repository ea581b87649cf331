"""The engine's two threads on scripted devices: every request is answered, and never while a lock is held."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import FrameType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scripted_devices import LANE, Script, ScriptedDevices, prepared

from sdjax_engine.errors import DevicesFailed, EngineClosed
from sdjax_engine.model.picture_classifier import PictureClassifier
from sdjax_engine.models.pixels import ViTPreprocessing
from sdjax_engine.request import Image, Progress
from sdjax_engine.scheduler.lane_queue import LaneQueue, Seats
from sdjax_engine.scheduler.loop import Scheduler
from sdjax_engine.scheduler.pending import PendingRequest
from sdjax_engine.scheduler.thread import EngineThread, Intake, Watchdog

DEADLINE = 60.0
STUCK_AFTER = 0.1


class Hanging:
    """A clock and a script; after `next_hangs` is set, the next call hangs until `answers` is set."""

    def __init__(self) -> None:
        self.now = 0.0
        self.next_hangs = False
        self.answers = threading.Event()
        self.script = Script(on_call=self.on_call)

    def clock(self) -> float:
        return self.now

    def on_call(self, _name: str) -> None:
        if self.next_hangs:
            self.next_hangs = False
            self.now += 1e6
            self.answers.wait(DEADLINE)


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    how = Hanging()
    yield how
    how.answers.set()


def queue_of(device: ScriptedDevices) -> LaneQueue:
    seats = Seats[PendingRequest](devices=1, seats_per_device=device.seats_per_device)
    return LaneQueue(device=device, seats=seats)


def devices_of(hanging: Hanging) -> ScriptedDevices:
    return ScriptedDevices(hanging.script, devices=1, seats_per_device=2)


def started(hanging: Hanging, *queues: LaneQueue) -> EngineThread:
    thread = EngineThread(
        {queue.lane: queue for queue in queues}, clock=hanging.clock, stuck_after=STUCK_AFTER
    )
    thread.start()
    return thread


def ends(call: Callable[[], object]) -> bool:
    """Whether another thread comes back from a call."""
    other = threading.Thread(target=call, daemon=True)
    other.start()
    other.join(DEADLINE)
    return not other.is_alive()


def test_an_engine_whose_devices_hang_fails_all_requests_and_stays_closed_when_they_answer(
    hanging: Hanging,
) -> None:
    hanging.next_hangs = True
    thread = started(hanging, queue_of(devices_of(hanging)))
    told: list[Progress] = []
    futures = [
        thread.intake.submit(PendingRequest(prepared=prepared(), on_progress=told.append)) for _ in range(3)
    ]
    for future in futures:
        with pytest.raises(EngineClosed, match="answer nothing"):
            future.result(DEADLINE)
    with pytest.raises(EngineClosed):
        thread.intake.submit(PendingRequest(prepared=prepared()))
    assert ends(lambda: thread.close(drain=True))
    known = list(told)
    hanging.answers.set()
    thread._thread.join(DEADLINE)
    assert not thread._thread.is_alive()
    assert told == known


def test_a_judgement_that_the_devices_never_give_ends_with_the_engine(hanging: Hanging) -> None:
    class Unanswered:
        """Probabilities that never arrive."""

        def __array__(self, *_: Any, **__: Any) -> Any:
            hanging.now += 1e6
            hanging.answers.wait(DEADLINE)
            return np.zeros((1, 2), np.float32)

    loaded: Any = SimpleNamespace(
        preprocessing=ViTPreprocessing(size=(8, 8)),
        component=SimpleNamespace(parameters={}),
        labels=("drawing", "bare"),
    )
    program: Any = lambda *_: Unanswered()  # noqa: E731
    classifier = PictureClassifier(source="never", loaded=loaded, program=program)
    thread = started(hanging, queue_of(devices_of(hanging)))
    with ThreadPoolExecutor(1) as caller:
        judged = caller.submit(classifier.judge, np.zeros((8, 8, 3), np.uint8), thread)
        done, _ = wait([judged], DEADLINE / 2)
        hanging.answers.set()
    assert done, "the caller waits for ever"
    with pytest.raises(EngineClosed, match="answer nothing"):
        judged.result()


@pytest.mark.parametrize("why", ["closed", "lane failed", "given up"])
def test_a_callback_may_wait_for_another_thread_that_uses_the_engine(why: str, hanging: Hanging) -> None:
    thread = started(hanging, *([queue_of(devices_of(hanging))] if why == "given up" else []))
    ended: list[bool] = []

    def look(_future: Future[Image]) -> None:
        ended.append(ends(lambda: thread.queues))

    hanging.next_hangs = why == "given up"
    future = thread.intake.submit(PendingRequest(prepared=prepared()))
    future.add_done_callback(look)
    if why == "closed":
        assert ends(lambda: thread.close(drain=False))
    elif why == "lane failed":
        thread.intake.fail_lane(LANE, DevicesFailed("The devices are too small."))
    wait([future], DEADLINE)
    thread.close(drain=False)
    assert ended == [True]


def test_a_cancelled_image_of_an_unopened_lane_ends_at_once_and_delays_no_close(
    hanging: Hanging,
) -> None:
    thread = started(hanging)
    future = thread.intake.submit(PendingRequest(prepared=prepared()))
    future.cancel()
    assert wait([future], DEADLINE).done == {future}
    assert ends(lambda: thread.close(drain=True))


def no_second_pass(_pending: PendingRequest, _image: Image) -> None:
    raise AssertionError("no request of this test has a second pass")


def work_of_a_turn(waiting: int) -> int:
    """How many bytecode instructions of the engine a turn takes while so many requests wait."""
    script = Script()
    queue = queue_of(ScriptedDevices(script, devices=1, seats_per_device=4))
    clock = Hanging().clock
    scheduler = Scheduler(
        {LANE: queue},
        clock=clock,
        watchdog=Watchdog(clock=clock, stuck_after=0.0),
        on_first_pass=no_second_pass,
    )
    for number in range(waiting):
        one = prepared(seed=number % 200, evaluations=1000, prompt=str(number))
        scheduler.table.join(PendingRequest(prepared=one))
    for _ in range(4):
        scheduler.turn()
    count = 0

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        assert scheduler.next_turn_at is not None
        assert scheduler.table.present
        scheduler.turn()
    finally:
        sys.settrace(before)
    return count


def test_the_work_of_a_turn_does_not_grow_with_the_queue() -> None:
    assert work_of_a_turn(2000) == work_of_a_turn(20) > 0


def test_a_lane_closes_at_once_with_the_cancellation_of_its_last_request(hanging: Hanging) -> None:
    queue = queue_of(ScriptedDevices(hanging.script, devices=1, seats_per_device=2))
    watchdog = Watchdog(clock=hanging.clock, stuck_after=0.0)
    scheduler, intake = (
        Scheduler({LANE: queue}, clock=hanging.clock, watchdog=watchdog, on_first_pass=no_second_pass),
        Intake(hanging.clock),
    )
    pending = PendingRequest(prepared=prepared())
    future = intake.submit(pending)
    assert intake.wait_for_work(scheduler)
    assert future.cancel()
    intake._leaving.add(LANE)  # the first thing that `close_lanes` does
    intake.wait_for_work(scheduler)
    intake.close_lanes([])
    assert not scheduler.table.queues
    assert not intake._leaving
