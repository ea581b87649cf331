"""A failure is per image: the requests of a failed run are retried, and no others are affected."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from engines import PLAIN, VARIED, fingerprint, like
from sabotage import BREAKING, POISON, Fault, SabotagedLane

from sdjax_engine.engine import Engine
from sdjax_engine.errors import EngineClosed, PaintingFailed
from sdjax_engine.lane.device_lane import DeviceLane
from sdjax_engine.request import Lane, Progress, Request, Trouble

DEADLINE = 120.0
LONG = like(num_inference_steps=40)


@pytest.fixture
def lane(device_lanes: dict[Lane, DeviceLane]) -> SabotagedLane:
    return SabotagedLane(device_lanes[PLAIN.lane])


@pytest.fixture
def engine(open_engine: Callable[..., Engine], lane: SabotagedLane) -> Engine:
    return open_engine(sabotaged={PLAIN.lane: lane})


@pytest.fixture(scope="module")
def known() -> dict[tuple[Request, ...], list[str]]:
    """Fingerprints of what an engine painted without a failure: each engine of this file paints the same."""
    return {}


@pytest.fixture
def unharmed(
    engine: Engine, known: dict[tuple[Request, ...], list[str]]
) -> Callable[[Sequence[Request]], list[str]]:
    """Paints requests without a failure, the same requests only once for all tests."""

    def paint_once(requests: Sequence[Request]) -> list[str]:
        key = tuple(requests)
        if key not in known:
            known[key] = paint(engine, *key)
        return known[key]

    return paint_once


def paint(engine: Engine, *requests: Request) -> list[str]:
    futures = [engine.submit(request) for request in requests]
    return [fingerprint(future.result(DEADLINE)) for future in futures]


@pytest.mark.parametrize("fault", Fault)
def test_the_requests_of_a_failed_run_are_retried_without_effect_on_others(
    fault: Fault,
    engine: Engine,
    lane: SabotagedLane,
    unharmed: Callable[[Sequence[Request]], list[str]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    wanted = [like(request, num_inference_steps=40, guidance_scale=5.0) for request in VARIED[: lane.seats]]
    expected, before = unharmed(wanted), unharmed(VARIED)
    told: dict[int, list[Progress]] = {index: [] for index in range(len(wanted))}

    def listen(index: int) -> Callable[[Progress], None]:
        def tell(progress: Progress) -> None:
            told[index].append(progress)
            if index == lane.seats - 1 and len(told[index]) == 1:  # the last to be seated
                lane.fault = fault

        return tell

    seated = [engine.submit(request, on_progress=listen(index)) for index, request in enumerate(wanted)]
    waiting = [engine.submit(request) for request in VARIED]

    assert [fingerprint(future.result(DEADLINE)) for future in seated] == expected
    assert [fingerprint(future.result(DEADLINE)) for future in waiting] == before
    for progress in told.values():
        assert [each.trouble for each in progress if each.trouble] == [Trouble.FAILED]
        begins = next(index for index, each in enumerate(progress) if each.trouble)
        assert progress[begins].step == 0
        steps = [each.step for each in progress[begins:]]
        assert steps == sorted(steps)
    assert any(record.levelno == logging.ERROR and record.exc_info for record in caplog.records)


def test_an_image_that_breaks_the_devices_fails_and_no_other_with_it(
    engine: Engine, lane: SabotagedLane, unharmed: Callable[[Sequence[Request]], list[str]]
) -> None:
    before = unharmed(VARIED)
    lane.breaks_on = BREAKING
    futures = [engine.submit(request) for request in (*VARIED[:2], like(seed=BREAKING), *VARIED[2:])]
    breaking = futures.pop(2)
    assert [fingerprint(future.result(DEADLINE)) for future in futures] == before
    with pytest.raises(PaintingFailed, match=r"^The devices failed: [^\n]+\.$"):
        breaking.result(DEADLINE)


def pixels_of(engine: Engine, request: Request) -> Any:
    return engine.submit(request).result(DEADLINE).pixels.astype(int)


def test_work_queued_before_a_run_that_fails_to_queue_is_still_delivered(
    engine: Engine, lane: SabotagedLane
) -> None:
    """One image finishes with the run in flight, and the next run fails to queue."""
    [expected] = paint(engine, like(num_inference_steps=8))
    told: list[Progress] = []
    told_of_other: list[Progress] = []
    lane.breaks_after_decoding = True
    finishing = engine.submit(like(num_inference_steps=8), on_progress=told.append)
    going_on = engine.submit(LONG, on_progress=told_of_other.append)
    assert fingerprint(finishing.result(DEADLINE)) == expected
    assert all(progress.trouble is None for progress in told)
    assert going_on.result(DEADLINE)
    assert [each.trouble for each in told_of_other if each.trouble] == [Trouble.FAILED]


def test_a_picture_that_is_not_a_number_fails_alone(
    engine: Engine, unharmed: Callable[[Sequence[Request]], list[str]]
) -> None:
    before = unharmed(VARIED)
    poisoned = engine.submit(like(seed=POISON))
    assert paint(engine, *VARIED) == before
    with pytest.raises(PaintingFailed, match="values that are no numbers"):
        poisoned.result(DEADLINE)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_every_request_is_answered_even_if_the_thread_ends(engine: Engine) -> None:
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
