"""Whether dispatching blocks is found from the seconds of runs, and told once for each lane."""

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
            times.add(lane, 0.09, 0.1)
    assert [str(LANE) in line or str(OTHER) in line for line in warnings(caplog)] == [True, True]
    assert "takes 90 ms of the 100 ms" in warnings(caplog)[0]
    assert warnings(caplog)[0].endswith("the host waits for the devices in it, so that runs do not overlap")
    assert (times.all.runs, round(times.all.dispatching, 2)) == (6 * WINDOW, 17.28)


@pytest.mark.parametrize(
    ("dispatching", "finishing"), [(0.001, 0.1), (0.011, 0.018)], ids=["overlapping", "short runs"]
)
def test_runs_that_overlap_or_are_short_are_not_told(
    dispatching: float, finishing: float, caplog: pytest.LogCaptureFixture
) -> None:
    times = RunTimes()
    for _ in range(3 * WINDOW):
        times.add(LANE, dispatching, finishing)
    assert warnings(caplog) == []


def test_a_few_slow_calls_are_no_reason(caplog: pytest.LogCaptureFixture) -> None:
    """The first call of anything takes longer."""
    times = RunTimes()
    for number in range(3 * WINDOW):
        times.add(LANE, 60.0 if number % WINDOW == 0 else 0.001, 61.0 if number % WINDOW == 0 else 0.1)
    assert warnings(caplog) == []
