"""Whether the devices wait for the host is found from the seconds of runs, and told once for each lane."""

from __future__ import annotations

import logging

import pytest

from sdjax_engine.request import Lane
from sdjax_engine.scheduler.lane_queue import WINDOW, RunTimes, Sums

LANE = Lane(model="tiny", height=16, width=16, guided=True)
OTHER = Lane(model="tiny", height=32, width=16, guided=True)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_a_lane_whose_dispatching_takes_as_long_as_its_runs_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    times = RunTimes()
    for lane in (LANE, OTHER):
        for _ in range(3 * WINDOW):
            times.add(lane, 9.0, 10.0, late=True)
    assert warnings(caplog) == [
        f"dispatching a run of {lane} takes 9000 ms of the 10000 ms that it lasts, and the devices finish it "
        "before the next is dispatched: they wait for the host"
        for lane in (LANE, OTHER)
    ]
    assert (times.all.runs, times.all.late) == (6 * WINDOW, 6 * WINDOW)
    assert times.all.dispatching == pytest.approx(9.0 * 6 * WINDOW)


@pytest.mark.parametrize(("blocked", "told"), [(WINDOW // 2, 0), (WINDOW // 2 + 1, 1)])
def test_a_lane_is_told_where_more_than_half_of_its_runs_are_blocked(
    blocked: int, told: int, caplog: pytest.LogCaptureFixture
) -> None:
    times = RunTimes()
    for number in range(WINDOW):
        times.add(LANE, 9.0, 10.0, late=number < blocked)
    assert len(warnings(caplog)) == told


def test_a_late_run_is_blocked_from_a_twentieth_of_a_second_where_dispatching_takes_more_than_half() -> None:
    sums = Sums()
    for dispatching, finishing in ((0.05, 0.05), (0.04, 0.049), (0.025, 0.05), (0.5, 1.0)):
        sums.add(dispatching, finishing, late=True)
    assert (sums.runs, sums.late, sums.blocked) == (4, 4, 1)


@pytest.mark.parametrize(
    ("dispatching", "finishing", "late"),
    [(0.001, 0.1, True), (0.011, 0.018, True), (0.6, 0.65, False)],
    ids=["quickly dispatched", "short runs", "a full queue of launches"],
)
def test_runs_that_keep_the_devices_busy_or_are_short_are_not_told(
    dispatching: float, finishing: float, late: bool, caplog: pytest.LogCaptureFixture
) -> None:
    times = RunTimes()
    for _ in range(3 * WINDOW):
        times.add(LANE, dispatching, finishing, late=late)
    assert warnings(caplog) == []


def test_a_few_slow_calls_are_no_reason(caplog: pytest.LogCaptureFixture) -> None:
    """The first call of anything takes longer."""
    times = RunTimes()
    for number in range(3 * WINDOW):
        first = number % WINDOW == 0
        times.add(LANE, 60.0 if first else 0.001, 61.0 if first else 0.1, late=first)
    assert warnings(caplog) == []
