"""How far ahead of their work the devices are given runs; pure policy.

They must never be without one; but whoever comes sits down behind all that they have been given. So with
seats free the next run is queued only just before the one in the air ends. With a line nobody could sit down
sooner, and devices that are done at different times have something to go on with.
"""

from __future__ import annotations

from collections.abc import Sequence

from sdjax_engine.scheduler.in_flight import InFlightBatch
from sdjax_engine.scheduler.lane_queue import LaneQueue

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


def runs_ahead(queue: LaneQueue | None) -> int:
    """How many runs the devices have before them while the host waits, the last being this desk's."""
    if queue is None:
        return 0
    if queue.seats.in_line:
        return RUNS_AHEAD_OF_A_LINE_ON_SEVERAL if queue.on_several_devices else RUNS_AHEAD_OF_A_LINE
    return RUNS_AHEAD_OF_MANY if len(queue.seats) >= MANY_SEATS else RUNS_AHEAD


def next_run_at(in_flight: Sequence[InFlightBatch], landed_at: float) -> float:
    """When the run behind these flights should be queued; the one before them landed at `landed_at`."""
    if len(in_flight) != 1 or in_flight[0].run is None or in_flight[0].uneven:
        return AT_ONCE
    [batch] = in_flight
    queue = batch.queue
    if not queue.seats.open_to_newcomers or queue.quickest is None:
        return AT_ONCE
    ends = max(batch.queued_at, landed_at) + batch.evaluations * queue.quickest
    return ends - MARGIN * queue.seconds_to_queue
