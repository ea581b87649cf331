"""Verbs that say where jobs stand.

However many wait, they are only counted, in indexes: requests in that of their fair order, images and steps
in that of their lane.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.errors import UnknownJob
from bot.jobs import Position, State
from bot.store import estimate
from bot.store.estimate import Ahead, Line
from bot.store.tables import images, jobs, offered_lanes, run_times, workers
from bot.store.verbs import Verbs

Point = tuple[float, int]
"""A place in an order: a tag, and what stands between equal ones."""

NOT_WAITING = Position(place=0, ahead=0, seconds=None)
_REQUESTS = sa.tuple_(jobs.c.tag, jobs.c.interaction_id)
_IMAGES = sa.tuple_(images.c.tag, images.c.id)
_WAITING_REQUESTS = sa.select(sa.func.count()).where(jobs.c.state == State.WAITING)
_WAITING_WORK = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(images.c.steps), 0)).where(
    images.c.state == State.WAITING
)


class PositionVerbs(Verbs):
    """Places in the queue, and times to start from measured run times and announced seats."""

    async def position(self, job_id: str) -> Position:
        """How this job stands; place 0 once nothing of it waits. Raises UnknownJob."""
        found = await self.positions([job_id])
        if not found:
            raise UnknownJob(job=job_id)
        return found[job_id]

    async def positions(self, job_ids: Sequence[str]) -> dict[str, Position]:
        """How each of these jobs stands that exists. What is in front of several is counted once."""
        look = sa.select(jobs.c.id).where(jobs.c.id.in_(job_ids))
        async with self._database.read() as connection:
            known = list(await connection.scalars(look))
            first = await _first_waiting(connection, known)
            places = await _counted(
                connection, _WAITING_REQUESTS, _REQUESTS, [_request_point(row) for row in first]
            )
            found = dict.fromkeys(known, NOT_WAITING)
            for lane, rows in groupby(sorted(first, key=lambda row: row.lane), key=lambda row: row.lane):
                waiting = list(rows)
                line = await self._line(connection, lane)
                work = _WAITING_WORK.where(images.c.lane == lane)
                ahead = await _counted(connection, work, _IMAGES, [(row.tag, row.id) for row in waiting])
                for row in waiting:
                    (requests,), (count, steps) = places[_request_point(row)], ahead[row.tag, row.id]
                    seconds = estimate.seconds_to_start(line, Ahead(images=count, steps=steps))
                    found[row.job_id] = Position(place=requests + 1, ahead=count, seconds=seconds)
        return found

    async def _line(self, connection: AsyncConnection, lane: str) -> Line:
        """How a lane is painted now."""
        offered = sa.select(sa.func.sum(offered_lanes.c.seats)).join(workers)
        now = offered_lanes.c.lane == lane, workers.c.expires_at > self._clock()
        pace = sa.select(run_times.c.seconds_per_step).where(run_times.c.lane == lane)
        left = (
            sa.select(images.c.steps - images.c.step)
            .where(images.c.state == State.RUNNING, images.c.lane == lane)
            .order_by(images.c.step.desc(), images.c.id)
        )
        return Line(
            seats=await connection.scalar(offered.where(*now)) or 0,
            pace=await connection.scalar(pace),
            running=tuple(await connection.scalars(left)),
        )


async def _first_waiting(connection: AsyncConnection, job_ids: Sequence[str]) -> list[Any]:
    """The image of each of these jobs that is next of those that wait."""
    statement = (
        sa.select(images.c.job_id, images.c.id, images.c.tag, images.c.lane, jobs.c.interaction_id)
        .join(jobs)
        .where(images.c.job_id.in_(job_ids), images.c.state == State.WAITING)
        .order_by(images.c.tag.desc(), images.c.id.desc())
    )
    return list({row.job_id: row for row in await connection.execute(statement)}.values())


def _request_point(row: Any) -> Point:
    return row.tag, row.interaction_id


async def _counted(
    connection: AsyncConnection,
    statement: sa.Select[Any],
    order: sa.Tuple,
    points: Iterable[Point],
) -> dict[Point, tuple[int, ...]]:
    """What `statement` sums up in front of each of these points of an order, which is gone through once."""
    found: dict[Point, tuple[int, ...]] = {}
    last: Point | None = None
    for point in sorted(set(points)):
        part = statement.where(order < sa.tuple_(*point))
        if last is not None:
            part = part.where(order >= sa.tuple_(*last))
        sums = tuple((await connection.execute(part)).one())
        before = found[last] if last is not None else (0,) * len(sums)
        found[point], last = tuple(map(sum, zip(before, sums, strict=True))), point
    return found
