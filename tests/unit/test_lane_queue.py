"""A lane's queue: how long its runs may be, what it learns from runs, and how it starts again."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sdjax_engine.scheduler.lane_queue import (
    LIMITS,
    REMEMBERED,
    LaneQueue,
    QuickestEvaluation,
    RecentQuantile,
    RunLimits,
    Seats,
)
from sdjax_engine.scheduler.pending import PendingRequest


def lane_on(devices: int, seats_per_device: int, **more: Any) -> Any:
    return SimpleNamespace(
        lane="lane", seats=devices * seats_per_device, seats_per_device=seats_per_device, **more
    )


def queue(device: Any, *, seats_per_device: int, devices: int = 1, **values: Any) -> LaneQueue:
    seats = Seats[PendingRequest](devices=devices, seats_per_device=seats_per_device)
    return LaneQueue(device=device, seats=seats, **values)


@dataclass(frozen=True)
class Asking:
    prepared: str


def request() -> PendingRequest:
    return cast("PendingRequest", object())


@pytest.mark.parametrize(
    ("seconds", "alone", "shared"),
    [
        (None, LIMITS, LIMITS),
        (0.0, LIMITS, LIMITS),
        (0.001, RunLimits(short=4, long=16), RunLimits(short=16, long=16)),
        (0.01, RunLimits(short=2, long=16), RunLimits(short=10, long=16)),
        (0.125, RunLimits(short=1, long=8), RunLimits(short=1, long=8)),
        (5.0, RunLimits(short=1, long=1), RunLimits(short=1, long=1)),
    ],
)
def test_runs_are_as_long_as_their_seconds_allow(
    seconds: float | None, alone: RunLimits, shared: RunLimits
) -> None:
    one = queue(lane_on(1, 4), seats_per_device=4, seconds_per_evaluation=seconds)
    assert (one.limits(), one.limits(shared=True)) == (alone, shared)


def test_the_mean_of_an_evaluation_follows_the_runs() -> None:
    one = queue(lane_on(1, 4), seats_per_device=4)
    one.learn_run(8.0, 4, 2)
    assert one.seconds_per_evaluation == 2.0
    one.learn_run(4.0, 4, 3, idle_after=True)
    assert one.seconds_per_evaluation == pytest.approx(1.8)


def test_the_quickest_evaluation_is_known_after_six_runs_of_as_many_rows_and_leaves_the_first_out() -> None:
    one = queue(lane_on(1, 4), seats_per_device=4)
    assert one.quickest_evaluation(2) is None
    for seconds in (1.0, 8.0, 6.0, 12.0, 8.0):
        one.learn_run(seconds, 4, 2)
        one.learn_run(3.0, 4, 1)
        assert one.quickest_evaluation(2) is None
    one.learn_run(8.0, 4, 2)
    assert (one.quickest_evaluation(2), one.quickest_evaluation(1), one.quickest_evaluation(4)) == (
        1.5,
        None,
        None,
    )
    one.learn_run(3.0, 4, 1)
    assert (one.quickest_evaluation(2), one.quickest_evaluation(1)) == (1.5, 0.75)


def learnt(*idle_after: bool) -> QuickestEvaluation:
    """Return the measure after 20 runs of 1 s an evaluation, and then these further ones."""
    quickest = QuickestEvaluation()
    for _ in range(20):
        quickest.add(1.0, idle_after=False)
    for each in idle_after:
        quickest.add(1.0, idle_after=each)
    return quickest


def test_an_evaluation_is_measured_anew_where_the_devices_were_idle_after_four_of_twelve_runs() -> None:
    far = [True, *[False] * 4, True, *[False] * 4, True]
    assert learnt(*far).value == 1.0
    assert learnt(*far, False, True).value == 1.0
    assert learnt(*far, True).value is None
    assert learnt(True, True, True).value == 1.0
    quickest = learnt(True, True, True, True)
    for _ in range(4):
        quickest.add(0.5, idle_after=False)
        assert quickest.value is None
    quickest.add(0.5, idle_after=True)
    assert quickest.value == 0.5
    quickest.add(0.25, idle_after=True)
    quickest.add(0.25, idle_after=True)
    assert quickest.value == 0.25
    quickest.add(0.25, idle_after=True)
    assert quickest.value is None


def test_cleared_seats_are_as_many_as_the_devices_now_have() -> None:
    device = lane_on(1, 4)
    one = queue(device, seats_per_device=4)
    people = [request() for _ in range(3)]
    for each in people:
        one.seats.join(each, 10)
    one.seats.take_seats()
    device.seats_per_device = 2
    assert one.clear_seats() == people
    assert (len(one.seats), one.seats.requests) == (2, [])


def test_requests_whose_texts_must_be_fetched_wait_while_the_seated_go_on_for_some_time() -> None:
    """The text encoders and the denoiser take turns on the devices, which costs two seconds."""
    known = [Asking(text) for text in ("known", "known too", "new", "known later")]
    device = lane_on(1, 4, text_seconds=2.0, knows_texts=lambda text: text.startswith("known"))
    one = queue(device, seats_per_device=4)
    for each in known:
        one.seats.join(cast("PendingRequest", each), 10)
    one.admitted_at = 100.0
    assert one.most_newcomers(101.0) is None, "nothing else is to be done"
    assert list(map(id, one.seats.take_seats(1).values())) == [id(known[0])]
    assert one.most_newcomers(107.9) == 1, "in the order of their arrival"
    assert list(map(id, one.seats.take_seats(1).values())) == [id(known[1])]
    assert one.most_newcomers(107.9) == 0
    assert one.seats.take_seats(0) == {}
    assert one.most_newcomers(108.0) is None, "nobody waits for ever"
    device.text_seconds = 0.0
    assert one.most_newcomers(101.0) is None


def test_a_quantile_is_of_the_last_values_only() -> None:
    most, least = RecentQuantile(0.9), RecentQuantile(0.1)
    assert most.value is None
    most.add(1.0)
    assert most.value == 1.0
    least.add(1.0)
    for value in range(2, 12):
        most.add(float(value))
        least.add(float(value))
    assert (least.value, most.value) == (2.0, 10.0)
    for _ in range(REMEMBERED - 1):
        most.add(0.0)
    assert most.value == 0.0
