"""Devices that do not answer: every request gets an error, and the engine is closed for good."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from engines import PLAIN, VARIED, like
from sabotage import SabotagedLane

from sdjax_engine.engine import Engine
from sdjax_engine.errors import EngineClosed
from sdjax_engine.lane.device_lane import DeviceLane
from sdjax_engine.request import Lane

DEADLINE = 120.0
STUCK_AFTER = 3.0  # seconds; far longer than anything here takes on a busy machine
GUIDED = tuple(request for request in VARIED if request.guided)


@pytest.fixture
def lane(device_lanes: dict[Lane, DeviceLane]) -> SabotagedLane:
    return SabotagedLane(device_lanes[PLAIN.lane])


@pytest.fixture
def answers() -> Iterator[threading.Event]:
    """Yield the event that hanging devices wait for; it is set at the end, so that no thread is left."""
    event = threading.Event()
    yield event
    event.set()


def test_devices_that_hang_are_given_up_and_every_request_fails(
    open_engine: Callable[..., Engine], lane: SabotagedLane, answers: threading.Event
) -> None:
    engine = open_engine(sabotaged={PLAIN.lane: lane}, stuck_after=STUCK_AFTER)
    engine.submit(PLAIN).result(DEADLINE)  # so that the engine has measured the time of a run
    lane.stuck.append(answers)
    futures = [engine.submit(request) for request in (*GUIDED * 2, like(guidance_scale=1.0))]
    for future in futures[:-1]:
        with pytest.raises(EngineClosed, match="answer nothing"):
            future.result(DEADLINE)
    with pytest.raises(EngineClosed):
        engine.submit(PLAIN)
    engine.close(drain=True)
    answers.set()
    engine._thread._thread.join(DEADLINE)
    with pytest.raises(EngineClosed):
        engine.submit(PLAIN)
