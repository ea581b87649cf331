"""How many workers each group needs for the work that waits; no I/O."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from bot.store.queue.demand import Demand


@dataclass(frozen=True, kw_only=True)
class Size:
    """The bounds of a group: its models and class, its least and most workers, and when one more is started.

    A worker is started for each `target_seconds` of waiting work, and stopped once fewer have sufficed for
    `idle_seconds`.
    """

    group: str
    models: frozenset[str]
    accelerator: str
    least: int
    most: int
    idle_seconds: float
    target_seconds: float

    def __post_init__(self) -> None:
        if not 0 <= self.least <= self.most:
            raise ValueError(f"least = {self.least} and most = {self.most}")


@dataclass(frozen=True, kw_only=True)
class Seen:
    """So many workers were needed at this time."""

    at: float
    need: int


History = tuple[Seen, ...]
"""The needs that still hold: each is less than the one before, and later."""


def needs(demand: Sequence[Demand], sizes: Sequence[Size]) -> dict[str, int]:
    """Return how many workers each group needs now, from 0 to its most.

    Groups take the waiting work in their order: a group leaves to later groups the work that its most workers
    cannot do within the target. While workers hold images, each group that paints them keeps one worker.
    """
    left: defaultdict[str, float] = defaultdict(lambda: 1.0)
    found = {}
    for size in sizes:
        mine = [row for row in demand if row.accelerator == size.accelerator and row.model in size.models]
        seconds = math.fsum(left[row.lane] * row.work_seconds for row in mine)
        waits = any(left[row.lane] and row.images for row in mine)
        need = max(int(waits), math.ceil(seconds / size.target_seconds))
        taken = min(need, size.most)
        for row in mine:
            left[row.lane] *= 1 - taken / need if need else 1.0
        found[size.group] = max(taken, min(size.most, int(any(row.running for row in mine))))
    return found


def wanted(size: Size, need: int, *, current: int, seen: History, now: float) -> tuple[int, History]:
    """Return how many workers the group should have, and its history with this need.

    The number rises at once, and falls once fewer workers have sufficed for `idle_seconds`. `current` is how
    many it has, which counts as the need before the first look. `now` is in seconds of a steady clock.
    """
    before = seen or (Seen(at=now, need=current),)
    kept = [each for each in before if each.need > need and now - each.at < size.idle_seconds]
    history = (*kept, Seen(at=now, need=need))
    return min(size.most, max(size.least, history[0].need)), history
