"""Whether the devices wait for the host is found from the seconds of runs, and told once for each lane."""

from __future__ import annotations

import logging

import pytest

from sdjax_engine.request import Lane
from sdjax_engine.scheduler.lane_queue import WINDOW, RunTimes

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
            times.add(lane, 0.09, 0.1, late=True)
    assert [str(LANE) in line or str(OTHER) in line for line in warnings(caplog)] == [True, True]
    assert "takes 90 ms of the 100 ms" in warnings(caplog)[0]
    assert warnings(caplog)[0].endswith("before the next is dispatched: they wait for the host")
    assert (times.all.runs, times.all.late) == (6 * WINDOW, 6 * WINDOW)
    assert times.all.dispatching == pytest.approx(17.28)


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
