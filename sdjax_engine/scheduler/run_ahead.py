"""How far ahead of their work the devices are given runs; pure policy.

They must never be without one; but whoever comes sits down behind all that they have been given. So with
seats free the next run is queued only just before the one in the air ends. With a line nobody could sit down
sooner, and devices that are done at different times have something to go on with.
"""

from __future__ import annotations

from collections.abc import Sequence

from sdjax_engine.scheduler.in_flight import Flight
from sdjax_engine.scheduler.lane_queue import Desk

RUNS_AHEAD = 1
"""Runs that the devices have before them while the host waits for an earlier one."""
RUNS_AHEAD_OF_MANY = 2
"""The same with so many seats that somebody finishes in nearly every run: devices that decode are late."""
RUNS_AHEAD_OF_A_LINE = 2
"""The same while people stand in line, on one device."""
RUNS_AHEAD_OF_A_LINE_ON_SEVERAL = 3
"""The same on several devices, of which one may be late several times in a row."""
MANY_SEATS = 128
MARGIN = 2.0
"""How many times what queueing takes the next run is queued before the one in the air ends."""
AT_ONCE = float("-inf")


def runs_ahead(desk: Desk | None) -> int:
    """How many runs the devices have before them while the host waits, the last being this desk's."""
    if desk is None:
        return 0
    if desk.seats.in_line:
        return RUNS_AHEAD_OF_A_LINE_ON_SEVERAL if desk.on_several_devices else RUNS_AHEAD_OF_A_LINE
    return RUNS_AHEAD_OF_MANY if len(desk.seats) >= MANY_SEATS else RUNS_AHEAD


def next_run_at(flights: Sequence[Flight], landed_at: float) -> float:
    """When the run behind these flights should be queued; the one before them landed at `landed_at`."""
    if len(flights) != 1 or flights[0].run is None or flights[0].uneven:
        return AT_ONCE
    [flight] = flights
    desk = flight.desk
    if not desk.seats.open_to_newcomers or desk.quickest is None:
        return AT_ONCE
    ends = max(flight.queued_at, landed_at) + flight.evaluations * desk.quickest
    return ends - MARGIN * desk.seconds_to_queue
