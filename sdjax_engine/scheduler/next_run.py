"""The next run: which lane has it, and when it is queued; pure policy.

Lanes have fair shares of the devices' time, by how many images want it: start-time fair queueing (Goyal, Vin
and Cheng 1996), as in the bot's queue. The tag of a lane grows by the seconds that it was served, divided by
its weight, and the lane with the smallest tag is served next. The weight is how many seats the requests of
the lane want: one image of a rare lane has the share of one seat, and never waits for ever. Where a lane's
model must first be moved to the devices, the lane served now is kept until it is ahead by a multiple of what
the move costs.

The devices must never be without a run, but a new request takes its seat behind all the runs that they have.
With free seats the next run is therefore queued only just before the run in flight ends. While requests wait,
no seat is free earlier anyway: the next run is queued at once, so that devices that finish at different times
have work. The end of a run is estimated from the latest runs. While too few were measured, the next run is
queued at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from sdjax_engine.scheduler.lane_queue import LaneQueue
from sdjax_engine.scheduler.request_table import InFlightBatch
from sdjax_engine.scheduler.seats import Readiness

AnyLane = TypeVar("AnyLane", bound=Hashable)

MOVES_AHEAD = 4.0
"""A lane is served for this many times the seconds of a move before another model takes its place."""
RUNS_AHEAD = 1
"""How many runs are queued on the devices while the host waits for an earlier run."""
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


@dataclass(frozen=True, kw_only=True)
class Demand:
    """The demand of a lane: how many seats, at least 1, and the seconds until its model is on the devices."""

    seats: int
    move_seconds: float = 0.0


class LaneShares(Generic[AnyLane]):
    """Counts how much of the devices' time each lane has had."""

    def __init__(self) -> None:
        self._tags: dict[AnyLane, float] = {}
        self._now = 0.0
        self._served: AnyLane | None = None

    def choose(self, demands: Mapping[AnyLane, Demand]) -> AnyLane:
        """Return the lane to serve next; there must be at least one."""
        for lane in demands:
            self._tags[lane] = max(self._tags.get(lane, 0.0), self._now)
        chosen = min(demands, key=lambda lane: self._tags[lane])
        served = self._served
        if served is not None and served in demands and self._stays(served, demands, chosen):
            chosen = served
        self._served = chosen
        self._now = min(self._tags[lane] for lane in demands)
        self._tags = {lane: tag for lane, tag in self._tags.items() if lane in demands or tag > self._now}
        return chosen

    def charge(self, lane: AnyLane, seconds: float, seats: int) -> None:
        """Count `seconds` of the devices' time on a lane that wants `seats`; less than 0 takes some back."""
        self._tags[lane] = self._tags.get(lane, self._now) + seconds / seats

    def _stays(self, served: AnyLane, demands: Mapping[AnyLane, Demand], chosen: AnyLane) -> bool:
        ahead = (self._tags[served] - self._tags[chosen]) * demands[served].seats
        return ahead < MOVES_AHEAD * demands[chosen].move_seconds


def runs_ahead(queue: LaneQueue | None) -> int:
    """Return how many runs stay queued while the host waits for an earlier one; the last is this lane's."""
    if queue is None:
        return 0
    if queue.seats.line:
        several = queue.on_several_devices
        return RUNS_AHEAD_WHILE_WAITING_ON_SEVERAL if several else RUNS_AHEAD_WHILE_WAITING
    return RUNS_AHEAD_OF_MANY if len(queue.seats) >= MANY_SEATS else RUNS_AHEAD


def next_run_at(
    in_flight: Sequence[InFlightBatch], landed_at: float, ready: Mapping[LaneQueue, Readiness]
) -> float:
    """Return when to queue the next run: at once, or shortly before the only batch in flight ends.

    The batch before it landed at `landed_at`; `ready` are the queues whose lanes could run now. The next run
    is delayed only where no other lane could use the devices meanwhile.
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
