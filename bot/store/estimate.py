"""Where jobs stand in the queue and when they start, from what has been measured; no I/O."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bot.jobs import Position


@dataclass(frozen=True, kw_only=True)
class Task:
    """An image that waits (`step` 0) or runs: its lane and how far it is."""

    job_id: str
    lane: str
    steps: int
    step: int = 0


def positions(
    waiting: Iterable[Task],
    *,
    running: Iterable[Task],
    seconds_per_step: Mapping[str, float],
    seats: int,
) -> dict[str, Position]:
    """The position of every job of `waiting`, which comes in fair order.

    The queue is played forward: each of `seats` seats is free once the image on it has done its
    remaining steps at its lane's mean pace, and the next image takes the seat that is free first.
    Claimed images that have not begun come before all waiting ones. Seconds are None without seats,
    or behind an image of a lane that was never measured.
    """
    free_at = _Seats(seats, seconds_per_step)
    for task in sorted(running, key=lambda task: task.step, reverse=True):
        free_at.take(task)
    found: dict[str, Position] = {}
    for ahead, task in enumerate(waiting):
        start = free_at.take(task)
        if task.job_id not in found:
            found[task.job_id] = Position(place=len(found) + 1, ahead=ahead, seconds=start)
    return found


class _Seats:
    """When each seat is free next, in seconds from now."""

    def __init__(self, seats: int, seconds_per_step: Mapping[str, float]) -> None:
        self._free_at = [0.0] * seats
        self._seconds_per_step = seconds_per_step
        self._known = seats > 0

    def take(self, task: Task) -> float | None:
        """Give the seat that is free first to `task`; return when it starts, None when not known."""
        if not self._known:
            return None
        start = self._free_at[0]
        pace = self._seconds_per_step.get(task.lane)
        if pace is None:
            self._known = False
        else:
            heapq.heapreplace(self._free_at, start + pace * max(0, task.steps - task.step))
        return start
