"""Devices that do not answer: detected, reported, retried, and finally given up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from engines import PLAIN, VARIED, fingerprint, like
from sabotage import SabotagedLane

from sdjax_engine.engine import Engine
from sdjax_engine.errors import EngineClosed
from sdjax_engine.lane.device_lane import DeviceLane
from sdjax_engine.request import Lane, Progress, Trouble

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


class Once:
    """Makes the devices hang once, at the first progress report: the time of a step is known by then."""

    def __init__(self, lane: SabotagedLane, answers: threading.Event) -> None:
        self.lane, self.answers = lane, answers
        self.told: list[Progress] = []
        self.done = False

    def __call__(self, progress: Progress) -> None:
        if progress.step and not self.done:
            self.done = True
            self.lane.stuck.append(self.answers)
        self.told.append(progress)


def test_hanging_devices_are_abandoned_and_every_request_is_painted(
    open_engine: Callable[..., Engine], lane: SabotagedLane, answers: threading.Event
) -> None:
    calm = open_engine()
    wanted = [like(request, seed=seed, num_inference_steps=16) for seed, request in enumerate(GUIDED)]
    painted = [calm.submit(request) for request in wanted]
    expected = [fingerprint(future.result(DEADLINE)) for future in painted]
    calm.close(drain=True)
    engine = open_engine(sabotaged={PLAIN.lane: lane}, stuck_after=STUCK_AFTER)
    first = Once(lane, answers)
    others: list[list[Progress]] = [[] for _ in wanted[1:]]
    futures = [engine.submit(wanted[0], on_progress=first)]
    futures += [
        engine.submit(request, on_progress=told.append)
        for request, told in zip(wanted[1:], others, strict=True)
    ]
    unguided = engine.submit(like(guidance_scale=1.0))
    assert [fingerprint(future.result(DEADLINE)) for future in futures] == expected
    assert unguided.result(DEADLINE)
    # The first picture may be done: the devices hang in the run that is dispatched after its progress.
    troubles = [[each.trouble for each in told if each.trouble] for told in (first.told, *others)]
    assert lane.hung
    assert troubles == [[Trouble.STUCK] * (request.seed in lane.hung) for request in wanted]
    assert not answers.is_set()


def test_an_abandoned_thread_changes_nothing_when_the_devices_answer_late(
    open_engine: Callable[..., Engine], lane: SabotagedLane, answers: threading.Event
) -> None:
    engine = open_engine(sabotaged={PLAIN.lane: lane}, stuck_after=STUCK_AFTER)
    left = engine._thread._thread
    image = engine.submit(like(num_inference_steps=12), on_progress=Once(lane, answers)).result(DEADLINE)
    answers.set()
    left.join(DEADLINE)
    assert not left.is_alive()
    again = engine.submit(like(num_inference_steps=12)).result(DEADLINE)
    assert fingerprint(again) == fingerprint(image)


def test_devices_that_hang_twice_are_given_up_and_every_request_fails(
    open_engine: Callable[..., Engine], lane: SabotagedLane, answers: threading.Event
) -> None:
    engine = open_engine(sabotaged={PLAIN.lane: lane}, stuck_after=STUCK_AFTER)
    engine.submit(PLAIN).result(DEADLINE)  # so that the engine has measured the time of a run
    lane.stuck += [answers] * 8
    futures = [engine.submit(request) for request in (*GUIDED * 2, like(guidance_scale=1.0))]
    for future in futures[:-1]:
        with pytest.raises(EngineClosed, match="answer nothing"):
            future.result(DEADLINE)
    with pytest.raises(EngineClosed):
        engine.submit(PLAIN)
    engine.close(drain=True)
