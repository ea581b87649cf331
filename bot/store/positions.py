"""Verbs that say where jobs stand."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.errors import UnknownJob
from bot.jobs import Position, State
from bot.store import estimate
from bot.store.estimate import Task
from bot.store.tables import images, run_times, workers
from bot.store.verbs import Verbs

_ORDER = sa.tuple_(images.c.tag, images.c.id)
_TASK = (images.c.job_id, images.c.lane, images.c.steps, images.c.step)
_NOT_WAITING = Position(place=0, ahead=0, seconds=None)


class PositionVerbs(Verbs):
    """Places in the queue, and times to start from measured run times and announced seats."""

    async def position(self, job_id: str) -> Position:
        """How this job stands; place 0 once nothing of it waits. Raises UnknownJob."""
        mine = sa.select(images.c.tag, images.c.id, images.c.state).where(images.c.job_id == job_id)
        async with self._database.read() as connection:
            rows = (await connection.execute(mine)).all()
            if not rows:
                raise UnknownJob(job=job_id)
            waiting = [(row.tag, row.id) for row in rows if row.state is State.WAITING]
            if not waiting:
                return _NOT_WAITING
            found = await self._positions(connection, up_to=sa.tuple_(*min(waiting)) >= _ORDER)
        return found[job_id]

    async def positions(self) -> dict[str, Position]:
        """How every job stands that has an image waiting, in fair order; one look at the whole queue."""
        async with self._database.read() as connection:
            return await self._positions(connection, up_to=sa.true())

    async def _positions(
        self, connection: AsyncConnection, *, up_to: sa.ColumnElement[bool]
    ) -> dict[str, Position]:
        waiting = sa.select(*_TASK).where(images.c.state == State.WAITING, up_to)
        running = sa.select(*_TASK).where(images.c.state == State.RUNNING)
        paces = await connection.execute(sa.select(run_times.c.lane, run_times.c.seconds_per_step))
        seats = await connection.scalar(
            sa.select(sa.func.sum(workers.c.seats)).where(workers.c.expires_at > self._clock())
        )
        return estimate.positions(
            [_task(row) for row in await connection.execute(waiting.order_by(images.c.tag, images.c.id))],
            running=[_task(row) for row in await connection.execute(running)],
            seconds_per_step={row.lane: row.seconds_per_step for row in paces},
            seats=seats or 0,
        )


def _task(row: Any) -> Task:
    return Task(job_id=row.job_id, lane=row.lane, steps=row.steps, step=row.step)
