"""Workers: their seats, the lanes that they offer, and what each paints now."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import sqlalchemy as sa

from bot.domain.jobs import State
from bot.store.database.database import Verbs, of_row
from bot.store.rows.audit import Act, By, note
from bot.store.tables.queue import images, offered_lanes, workers

MOST_LANES = 1000
MOST_IMAGES = 500


@dataclass(frozen=True, kw_only=True)
class Painting:
    """One image of a worker: its `step` of `steps`. It waits beside the devices until it has `begun`."""

    job_id: str
    index: int
    lane: str
    step: int
    steps: int
    begun: bool


@dataclass(frozen=True, kw_only=True)
class WorkerNow:
    """A worker that has announced itself; without a heartbeat it counts as dead at `expires_at`.

    A worker with no seats stands in for one that starts later, or shuts down. One that is `drained` finishes
    what it has and claims nothing. `ready` is the number of its lanes whose programs are compiled, `hourly`
    that of its pictures of the last hour, `memory` the bytes of each device in use, `version` the bot's.
    """

    name: str
    seats: int
    drained: bool
    version: str
    ready: int
    hourly: int
    memory: int
    expires_at: float
    lanes: tuple[str, ...]
    images: tuple[Painting, ...]


class Workers(Verbs):
    """The verbs of workers."""

    async def drain(self, name: str, by: By, *, drained: bool = True) -> bool:
        """Let a worker finish what it has and claim nothing more, or claim again; the log tells the change.

        The wish outlives a restart of the worker. False for a worker that is not there.
        """
        act = Act.DRAIN if drained else Act.UNDRAIN
        mine = sa.select(workers.c.drained).where(workers.c.name == name).with_for_update()
        async with self._telling(work=not drained) as connection:
            was = await connection.scalar(mine)
            if was in (None, drained):
                return was is not None
            change = {"drained": drained} | ({"seats": 0} if drained else {})  # it announces its seats again
            await connection.execute(sa.update(workers).where(workers.c.name == name).values(change))
            if drained:
                offered = sa.update(offered_lanes).where(offered_lanes.c.worker == name)
                await connection.execute(offered.values(seats=0))
            await note(connection, act, by, at=self._clock(), after={"worker": name})
        return True

    async def now(self) -> list[WorkerNow]:
        """Return the living workers by name, each with its first images in the order of their leases."""
        alive = workers.c.expires_at > self._clock()
        offered = sa.select(offered_lanes).join(workers).where(alive).order_by(offered_lanes.c.lane)
        leased = sa.select(images).where(images.c.state == State.RUNNING).order_by(images.c.id)
        async with self._database.read() as connection:
            rows = list(await connection.execute(sa.select(workers).where(alive).order_by(workers.c.name)))
            lanes: dict[str, list[str]] = defaultdict(list)
            for lane in await connection.execute(offered.limit(MOST_LANES)):
                lanes[lane.worker].append(lane.lane)
            painted: dict[str, list[Painting]] = defaultdict(list)
            for image in await connection.execute(leased.limit(MOST_IMAGES)):
                painted[image.worker].append(of_row(Painting, image))
        return [
            of_row(WorkerNow, row, lanes=tuple(lanes[row.name]), images=tuple(painted[row.name]))
            for row in rows
        ]
