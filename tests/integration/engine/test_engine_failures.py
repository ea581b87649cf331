"""Failure is per image: whoever an error cannot have touched is painted, everybody else is told, once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait

import pytest
from engines import PLAIN, VARIED, fingerprint, like
from sabotage import POISON, Fault, SabotagedLane

from sdjax_engine.engine import Engine
from sdjax_engine.lanes import DeviceLane
from sdjax_engine.request import EngineClosed, Image, Lane, PaintingFailed, Progress, Request

DEADLINE = 120.0
LONG = like(num_inference_steps=150)


@pytest.fixture
def lane(device_lanes: dict[Lane, DeviceLane]) -> SabotagedLane:
    return SabotagedLane(device_lanes[PLAIN.lane])


@pytest.fixture
def engine(open_engine: Callable[..., Engine], lane: SabotagedLane) -> Engine:
    return open_engine(sabotaged={PLAIN.lane: lane})


def paint(engine: Engine, *requests: Request) -> list[str]:
    futures = [engine.submit(request) for request in requests]
    return [fingerprint(future.result(DEADLINE)) for future in futures]


@pytest.mark.parametrize("fault", Fault)
def test_a_run_that_fails_takes_those_in_its_seats_and_nobody_else(
    fault: Fault, engine: Engine, lane: SabotagedLane, caplog: pytest.LogCaptureFixture
) -> None:
    before = paint(engine, *VARIED)
    seated: list[Future[Image]] = []
    told_too_late: list[Progress] = []
    armed: list[Fault] = []

    def arm(progress: Progress) -> None:
        """Called for the last to be seated, so that all seats are taken."""
        if not armed:
            armed.append(fault)
            lane.fault = fault

    def listen(index: int) -> Callable[[Progress], None]:
        def told(progress: Progress) -> None:
            if len(seated) > index and seated[index].done():
                told_too_late.append(progress)

        return told

    for index in range(lane.seats - 1):
        seated.append(engine.submit(LONG, on_progress=listen(index)))
    seated.append(engine.submit(LONG, on_progress=arm))
    waiting = [engine.submit(request) for request in VARIED]

    for future in seated:
        with pytest.raises(PaintingFailed, match=r"^The devices failed: [^\n]+\.$"):
            future.result(DEADLINE)
    assert [fingerprint(future.result(DEADLINE)) for future in waiting] == before
    assert told_too_late == []
    assert any(record.levelno == logging.ERROR and record.exc_info for record in caplog.records)


def test_what_was_queued_before_a_run_that_cannot_be_queued_is_still_delivered(
    engine: Engine, lane: SabotagedLane
) -> None:
    """One image finishes with the very run in the air while the next one fails."""
    [expected] = paint(engine, like(num_inference_steps=8))
    armed: list[bool] = []

    def arm(progress: Progress) -> None:
        """Told at the end of the first of two runs of four, when the second is in the air."""
        if not armed:
            armed.append(True)
            lane.fault = Fault.QUEUEING

    finishing = engine.submit(like(num_inference_steps=8), on_progress=arm)
    going_on = engine.submit(LONG)
    assert fingerprint(finishing.result(DEADLINE)) == expected
    with pytest.raises(PaintingFailed):
        going_on.result(DEADLINE)


def test_a_picture_that_cannot_be_read_fails_alone(engine: Engine, lane: SabotagedLane) -> None:
    before = paint(engine, *VARIED)
    lane.spoil_picture = True
    futures = [engine.submit(request) for request in VARIED]
    wait(futures, DEADLINE)
    failed = [future.exception(0) for future in futures if future.exception(0)]
    assert [type(error) for error in failed] == [PaintingFailed]
    for future, expected in zip(futures, before, strict=True):
        assert future.exception(0) or fingerprint(future.result(0)) == expected


def test_a_picture_that_is_not_a_number_fails_alone(engine: Engine) -> None:
    before = paint(engine, *VARIED)
    poisoned = engine.submit(like(seed=POISON))
    assert paint(engine, *VARIED) == before
    with pytest.raises(PaintingFailed, match="not a number"):
        poisoned.result(DEADLINE)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_everybody_is_answered_even_if_the_thread_itself_ends(engine: Engine) -> None:
    everybody_is_here = threading.Event()

    def end(progress: Progress) -> None:
        everybody_is_here.wait(DEADLINE)
        raise SystemExit

    futures = [engine.submit(LONG, on_progress=end)]
    futures += [engine.submit(like(LONG, guidance_scale=guidance)) for guidance in (1.0, 5.0) * 10]
    everybody_is_here.set()
    for future in futures:
        with pytest.raises(EngineClosed):
            future.result(DEADLINE)
    with pytest.raises(EngineClosed):
        engine.submit(PLAIN)
