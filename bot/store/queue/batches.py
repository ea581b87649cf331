"""Batches: which images have a seat on the devices now."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import sqlalchemy as sa

from bot.domain.jobs import State
from bot.store.database.database import Verbs, of_row
from bot.store.tables.queue import images, jobs, offered_lanes, run_times, workers


@dataclass(frozen=True, kw_only=True)
class Seated:
    """One image on the devices, and how many steps it has left."""

    user_id: int
    guild_id: int | None
    left: int


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The seats of one lane on all workers together, and the images in them.

    `seconds` is the estimate until a seat is free: 0 if one is free now, None without a measured pace.
    """

    lane: str
    seats: int
    images: tuple[Seated, ...]
    seconds: float | None


class Batches(Verbs):
    """The verb of batches."""

    async def now(self) -> list[Batch]:
        """Return the batches of all lanes that are painted now, the fullest first."""
        on_devices = (images.c.state == State.RUNNING) & images.c.begun
        left = (images.c.steps - images.c.step).label("left")
        look = sa.select(images.c.lane, images.c.worker, jobs.c.user_id, jobs.c.guild_id, left)
        alive = offered_lanes.join(workers)
        seats = sa.select(offered_lanes).select_from(alive).where(workers.c.expires_at > self._clock())
        async with self._database.read() as connection:
            offered: dict[str, dict[str, int]] = defaultdict(dict)
            for row in await connection.execute(seats):
                offered[row.lane][row.worker] = row.seats
            begun: dict[str, list[tuple[str, Seated]]] = defaultdict(list)
            for row in await connection.execute(look.join(jobs).where(on_devices).order_by(images.c.id)):
                begun[row.lane].append((row.worker, of_row(Seated, row)))
            seated = {lane: _seated(there, offered[lane]) for lane, there in begun.items()}
            mine = run_times.c.lane.in_(seated)
            rows = await connection.execute(sa.select(run_times).where(mine))
            pace = {row.lane: row.seconds_per_step for row in rows}
        found = [
            _batch(lane, there, sum(offered[lane].values()), pace.get(lane)) for lane, there in seated.items()
        ]
        return sorted(found, key=lambda batch: (-len(batch.images), batch.lane))


def _seated(begun: list[tuple[str, Seated]], offered: dict[str, int]) -> list[Seated]:
    """Return the images with a seat, in their order; `begun` are all that have begun, with their workers.

    Of a worker with more images than seats, those with the fewest steps left are finished: they are being
    read and stored. A worker that shuts down offers no seats but still paints.
    """
    seated = list(begun)
    for worker, seats in offered.items():
        if not seats:
            continue
        own = sorted((each for each in begun if each[0] == worker), key=lambda each: each[1].left)
        for finished in own[: max(0, len(own) - seats)]:
            seated.remove(finished)
    return [image for _, image in seated]


def _batch(lane: str, there: list[Seated], offered: int, pace: float | None) -> Batch:
    seats = max(offered, len(there))  # a worker that shuts down offers no seats but still paints
    first = min(image.left for image in there)
    seconds = None if pace is None else pace * first
    return Batch(lane=lane, seats=seats, images=tuple(there), seconds=0.0 if len(there) < seats else seconds)
