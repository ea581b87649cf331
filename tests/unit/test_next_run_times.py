"""How far ahead runs are queued: far if no request is delayed by it, late if a request could take a seat."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from sdjax_engine.scheduler.lane_queue import REMEMBERED, LaneQueue, Seats
from sdjax_engine.scheduler.loop import AT_ONCE, MANY_SEATS, InFlightBatch, next_run_at, runs_ahead
from sdjax_engine.scheduler.pending import PendingRequest

ROWS = 4


def queue(devices: int, seats_per_device: int, people: int) -> LaneQueue:
    """A lane queue with so many requests, of ten evaluations and more."""
    device = SimpleNamespace(lane="lane", seats=devices * seats_per_device, seats_per_device=seats_per_device)
    seats = Seats[PendingRequest](devices=devices, seats_per_device=seats_per_device)
    for further in range(people):
        seats.join(cast("PendingRequest", object()), 10 + further)
    seats.take_seats()
    return LaneQueue(device=cast("Any", device), seats=seats)


def practised(devices: int, seats_per_device: int, people: int) -> LaneQueue:
    """Return a queue that has measured runs of 0.1 s an evaluation and 0.01 s of queueing."""
    one = queue(devices, seats_per_device, people)
    for _ in range(6):
        one.learn_run(0.4, 4, ROWS)
        one.slowest_queueing.add(0.01)
    return one


def batch(of: LaneQueue, rows: int = ROWS, **how: Any) -> InFlightBatch:
    flying = InFlightBatch(queue=of, queued_at=5.0, run=cast("Any", SimpleNamespace(rows=rows)), **how)
    flying.spans = of.seats.plan_run(of.limits())
    flying.evaluations = max(span.stop - span.start for span in flying.spans)
    return flying


def ready(*queues: LaneQueue) -> list[LaneQueue]:
    return [each for each in queues if each.seats.wanted]


@pytest.mark.parametrize(
    ("devices", "seats", "people", "runs"),
    [(1, 4, 1, 1), (1, 4, 4, 1), (1, 4, 5, 2), (2, 4, 8, 1), (2, 4, 9, 3), (MANY_SEATS // 4, 4, 1, 2)],
    ids=["seats free", "none free", "a line", "several devices", "a line there", "many seats"],
)
def test_more_runs_are_queued_ahead_the_fewer_requests_they_delay(
    devices: int, seats: int, people: int, runs: int
) -> None:
    assert runs_ahead(queue(devices, seats, people)) == runs


def test_without_requests_no_run_is_queued() -> None:
    assert runs_ahead(None) == 0


def test_with_free_seats_the_next_run_is_queued_just_before_the_current_one_ends() -> None:
    one = practised(1, 4, 1)
    flying = batch(one)
    at = next_run_at([flying], 6.0, ready(one))
    assert at == pytest.approx(6.0 + 0.1 * flying.evaluations - 0.02)


def test_before_a_queueing_was_measured_the_next_run_is_queued_when_the_current_one_ends() -> None:
    one = queue(1, 4, 1)
    for _ in range(6):
        one.learn_run(0.4, 4, ROWS)
    flying = batch(one)
    assert next_run_at([flying], 6.0, ready(one)) == pytest.approx(6.0 + 0.1 * flying.evaluations)


def test_the_next_run_is_queued_at_once_where_nobody_gains_by_waiting() -> None:
    full, one, other, several = (practised(*of) for of in ((1, 4, 5), (1, 4, 1), (1, 4, 1), (2, 4, 1)))
    for flying, lanes in (
        ([batch(full)], [full]),  # no seat is free
        ([batch(one)], [one, other]),  # another lane could run
        ([batch(one)], [other]),
        ([batch(several, uneven=True)], [several]),  # the devices are done at different times
        ([batch(several), batch(several)], [several]),
        ([batch(one, rows=ROWS + 1)], [one]),  # no run of as many rows was measured
    ):
        assert next_run_at(flying, 6.0, ready(*lanes)) == AT_ONCE


def test_the_first_runs_do_not_tell_how_long_the_next_will_take() -> None:
    one = queue(1, 4, 1)
    for _ in range(5):
        one.learn_run(0.4, 4, ROWS)
        assert next_run_at([batch(one)], 6.0, ready(one)) == AT_ONCE
    one.learn_run(0.4, 4, ROWS)
    assert next_run_at([batch(one)], 6.0, ready(one)) > 6.0


def test_one_slow_queueing_does_not_make_the_next_run_earlier() -> None:
    one = practised(1, 4, 1)
    for _ in range(REMEMBERED):
        one.slowest_queueing.add(0.01)
    flying = batch(one)
    at = next_run_at([flying], 6.0, ready(one))
    one.slowest_queueing.add(30.0)
    assert next_run_at([flying], 6.0, ready(one)) == at
