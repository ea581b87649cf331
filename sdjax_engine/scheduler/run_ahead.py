"""How many runs the devices have before them; pure policy.

The devices must never be without a run, but a new request takes its seat behind all the runs that they have.
With free seats the next run is therefore queued only just before the run in flight ends. While requests wait
no seat is free earlier anyway, and devices that finish at different times have something to go on with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sdjax_engine.scheduler.lane_queue import LaneQueue
from sdjax_engine.scheduler.request_table import InFlightBatch
from sdjax_engine.scheduler.seats import Readiness

RUNS_AHEAD = 1
"""Runs that the devices have before them while the host waits for an earlier run."""
RUNS_AHEAD_OF_MANY = 2
"""The same with so many seats that a request finishes in nearly every run, and the devices decode."""
RUNS_AHEAD_WHILE_WAITING = 2
"""The same while requests wait, on one device."""
RUNS_AHEAD_WHILE_WAITING_ON_SEVERAL = 3
"""The same on several devices, of which one may be late several times in a row."""
MANY_SEATS = 128
MARGIN = 2.0
"""The next run is queued this many times the seconds of queueing before the run in flight ends."""
AT_ONCE = float("-inf")


def runs_ahead(queue: LaneQueue | None) -> int:
    """Return how many runs the devices have while the host waits, the last of them this lane's."""
    if queue is None:
        return 0
    if queue.seats.line:
        several = queue.on_several_devices
        return RUNS_AHEAD_WHILE_WAITING_ON_SEVERAL if several else RUNS_AHEAD_WHILE_WAITING
    return RUNS_AHEAD_OF_MANY if len(queue.seats) >= MANY_SEATS else RUNS_AHEAD


def next_run_at(
    in_flight: Sequence[InFlightBatch], landed_at: float, ready: Mapping[LaneQueue, Readiness]
) -> float:
    """Return when to queue the next run: at once, or late in the only batch in flight.

    The batch before it landed at `landed_at`; `ready` are the queues whose lanes could run now. Late is right
    only where no other lane could use the devices meanwhile.
    """
    if len(in_flight) != 1:
        return AT_ONCE
    [batch] = in_flight
    if batch.run is None or batch.uneven or list(ready) != [batch.queue]:
        return AT_ONCE
    seconds = batch.queue.quickest_evaluation(batch.run.rows)
    if seconds is None or not ready[batch.queue].open_to_newcomers:
        return AT_ONCE
    ends = max(batch.queued_at, landed_at) + batch.evaluations * seconds
    return ends - MARGIN * (batch.queue.slowest_queueing.value or 0.0)
