"""When images start, from what has been measured; no I/O."""

from __future__ import annotations

import heapq
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Ahead:
    """The waiting images of a lane that come first: how many, and their steps together."""

    images: int
    steps: int


@dataclass(frozen=True, kw_only=True)
class Line:
    """A lane as it is painted now.

    `seats` are those of all workers that offer it, `pace` the seconds that a step of one image takes there,
    None before the first measurement. `running` are the steps that are left of each image that is claimed,
    those that have begun first.
    """

    seats: int
    pace: float | None
    running: tuple[int, ...] = ()


def seconds_to_start(line: Line, ahead: Ahead) -> float | None:
    """Seconds until the image behind all these takes a seat; None without seats or measurements.

    Lanes share the devices, but each has its own seats, and what its images take is measured while the
    others work too. So a lane is a line of its own: each seat is free once the image on it has done its
    steps, and whoever is next takes the seat that is free first. Of those that wait only the sum is known,
    so each is taken for a mean one.
    """
    if line.seats < 1 or line.pace is None:
        return None
    free_at = [0.0] * line.seats
    for steps in line.running:
        heapq.heapreplace(free_at, free_at[0] + line.pace * max(0, steps))
    if not ahead.images:
        return free_at[0]
    return _after(free_at, ahead.images, line.pace * ahead.steps / ahead.images)


def _after(free_at: list[float], images: int, seconds: float) -> float:
    """When a seat is free once so many images of so many seconds each have taken theirs."""
    while images >= len(free_at):
        if max(free_at) - free_at[0] <= seconds:  # from now on everybody takes their seats in turn
            rounds, images = divmod(images, len(free_at))
            free_at = [free + rounds * seconds for free in free_at]
            break
        images -= _take(free_at, len(free_at), seconds)
    _take(free_at, images, seconds)
    return free_at[0]


def _take(free_at: list[float], images: int, seconds: float) -> int:
    for _ in range(images):
        heapq.heapreplace(free_at, free_at[0] + seconds)
    return images
