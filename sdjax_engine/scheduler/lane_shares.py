"""Which lane the devices serve next: fair shares of their time, by how many images want it; pure policy.

Start-time fair queueing (Goyal, Vin and Cheng 1996), as in the bot's queue. The tag of a lane grows by the
seconds that it was served, divided by its weight, and the lane with the smallest tag is served next. The
weight is how many seats the lane's requests want: one image of a rare lane has the share of one seat, and
never waits for ever. Where a lane's model must first be moved to the devices, the lane served now is kept
until it is ahead by a multiple of what the move costs.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

Lane = TypeVar("Lane", bound=Hashable)

MOVES_AHEAD = 4.0
"""How many times the seconds of a move a lane is served for before another model takes its place."""


@dataclass(frozen=True, kw_only=True)
class Demand:
    """The demand of a lane: how many seats, at least 1, and the seconds until its model is on the devices."""

    seats: int
    move_seconds: float = 0.0


class LaneShares(Generic[Lane]):
    """Counts how much of the devices' time each lane has had."""

    def __init__(self) -> None:
        self._tags: dict[Lane, float] = {}
        self._now = 0.0
        self._served: Lane | None = None

    def choose(self, demands: Mapping[Lane, Demand]) -> Lane:
        """Return the lane to serve next, of at least one."""
        for lane in demands:
            self._tags[lane] = max(self._tags.get(lane, 0.0), self._now)
        chosen = min(demands, key=lambda lane: self._tags[lane])
        served = self._served
        if served is not None and served in demands and self._kept(served, demands, chosen):
            chosen = served
        self._served = chosen
        self._now = min(self._tags[lane] for lane in demands)
        self._tags = {lane: tag for lane, tag in self._tags.items() if lane in demands or tag > self._now}
        return chosen

    def charge(self, lane: Lane, seconds: float, seats: int) -> None:
        """Count `seconds` of the devices' time on a lane that wants `seats`; less than 0 takes some back."""
        self._tags[lane] = self._tags.get(lane, self._now) + seconds / seats

    def _kept(self, served: Lane, demands: Mapping[Lane, Demand], chosen: Lane) -> bool:
        ahead = (self._tags[served] - self._tags[chosen]) * demands[served].seats
        return ahead < MOVES_AHEAD * demands[chosen].move_seconds
