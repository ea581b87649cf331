"""The queue as operators see and change it: the requests that run or wait, in fair order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.jobs import State
from bot.store.database.database import Verbs, of_row
from bot.store.queue.jobs import PAUSED, RUNS, WAITS
from bot.store.rows.audit import Act, By, note
from bot.store.rows.jobs import among, is_public
from bot.store.rows.pauses import OF_PAUSE, pause_job, resume_job
from bot.store.rows.transitions import lock_owned_job
from bot.store.tables.queue import images, jobs, offered_lanes, restrictions, virtual_clock

_ORDER = (jobs.c.tag, jobs.c.interaction_id)
_KINDS = {"running": (RUNS,), "waiting": (WAITS,), "paused": (PAUSED,)}
KINDS = tuple(_KINDS)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which requests are listed: of one of KINDS, person, server, model; all where nothing is said.

    `public` requests are those whose answer members of a server see too.
    """

    kind: str = ""
    user_id: int | None = None
    guild_id: int | None = None
    model: str = ""
    public: bool = False


@dataclass(frozen=True, kw_only=True)
class Listed:
    """A request that runs or waits: `done` of its `pictures` are painted, all of them of this `lane`.

    `offered` says whether a worker paints that lane. `place` is its place among the requests that wait; None
    for others, and where only some requests are listed. `pause` is why it waits in a pause.
    """

    id: str
    user_id: int
    user_name: str
    guild_id: int | None
    state: State
    paused: bool
    created_at: float
    lane: str
    offered: bool
    pictures: int
    done: int
    place: int | None
    pause: str | None


@dataclass(frozen=True, kw_only=True)
class Attempts:
    """Whether a request has a pause of its own, and by image its number of attempts and its worker."""

    paused_alone: bool
    of_image: Mapping[int, tuple[int, str | None]]


class Queue(Verbs):
    """The verbs of the queue."""

    async def listed(self, wanted: Wanted, *, limit: int) -> list[Listed]:
        """Return the first requests that fit: those that run, that wait, that wait in a pause."""
        named = {"user_id": wanted.user_id, "guild_id": wanted.guild_id, "model": wanted.model or None}
        values = {name: value for name, value in named.items() if value is not None}
        conditions = frozenset(values) | ({"public"} if wanted.public else set())
        look = _look(_KINDS.get(wanted.kind) or (RUNS, WAITS, PAUSED), conditions)
        rows = await self._database.look(look, {**values, "most": limit})
        first = sorted(rows, key=lambda row: row[:3])[:limit]
        found = [of_row(Listed, row, place=None) for row in first]
        if conditions:
            return found
        waiting = (
            number for number, row in enumerate(first) if row.state is State.WAITING and not row.paused
        )
        places = {number: place for place, number in enumerate(waiting, start=1)}
        return [replace(each, place=places.get(number)) for number, each in enumerate(found)]

    async def attempts(self, job_id: str) -> Attempts:
        """Return how a request was tried."""
        mine = sa.select(images.c.index, images.c.fencing_token, images.c.worker, jobs.c.paused_alone)
        rows = await self._rows(mine.join(jobs).where(images.c.job_id == job_id))
        of_image = {row[0]: (row.fencing_token, row.worker) for row in rows}
        return Attempts(paused_alone=any(row.paused_alone for row in rows), of_image=of_image)

    async def pause(self, job_id: str, by: By) -> None:
        """Give a request a pause of its own, which the log tells; nothing where it has one, or has ended.

        Raises UnknownJob, like the other verbs of one request.
        """
        async with self._database.write() as connection:
            owner = await lock_owned_job(connection, job_id, None)
            if await pause_job(connection, job_id):
                await self._note(connection, Act.PAUSE, job_id, owner, by)

    async def resume(self, job_id: str, by: By) -> None:
        """End the request's own pause: its images are tagged as if they were requested now."""
        async with self._telling(work=True) as connection:
            owner = await lock_owned_job(connection, job_id, None)
            if await resume_job(connection, job_id):
                await self._note(connection, Act.RESUME, job_id, owner, by)

    async def advance(self, job_id: str, by: By) -> None:
        """Move a request to the front: its waiting images are tagged with virtual time, so they are next.

        Nobody's account changes: the person's last tag has the images already, so the person's next request
        comes as late as without the move, and others wait for these images alone.
        """
        front = sa.select(sa.func.coalesce(sa.func.max(virtual_clock.c.time), 0.0)).scalar_subquery()
        behind = (images.c.job_id == job_id) & among(images, State.WAITING) & (images.c.tag > front)
        async with self._telling(work=True) as connection:
            owner = await lock_owned_job(connection, job_id, None)
            look = sa.select(images.c.id).where(behind).order_by(images.c.id)
            moved = list(await connection.scalars(look.with_for_update()))
            if moved:
                change = sa.update(images).where(images.c.id.in_(moved))
                await connection.execute(change.values(tag=front))
                await connection.execute(sa.update(jobs).where(jobs.c.id == job_id).values(tag=front))
                await self._note(connection, Act.ADVANCE, job_id, owner, by)

    async def _note(self, connection: AsyncConnection, act: Act, job_id: str, owner: int, by: By) -> None:
        await note(connection, act, by, at=self._clock(), subject_id=owner, after={"job": job_id})


@cache
def _look(kinds: tuple[sa.ColumnElement[bool], ...], named: frozenset[str]) -> sa.CompoundSelect[Any]:
    """Return the select of the first requests of these kinds; kept, because making it takes long."""
    return sa.union_all(*(_first(kind, rank, named) for rank, kind in enumerate(kinds)))


def _first(kind: sa.ColumnElement[bool], rank: int, named: frozenset[str]) -> sa.Select[Any]:
    """Return the select of the first requests of a kind, whose first columns order them."""
    model = sa.bindparam("model", type_=sa.String)
    of_model = sa.func.substr(images.c.lane, 1, sa.func.length(model) + 1) == model + ":"
    conditions = {
        "user_id": jobs.c.user_id == sa.bindparam("user_id"),
        "guild_id": jobs.c.guild_id == sa.bindparam("guild_id"),
        "model": sa.exists().where(images.c.job_id == jobs.c.id, of_model),
        "public": is_public(),
    }
    columns = (jobs.c.id, jobs.c.user_id, jobs.c.user_name, jobs.c.guild_id, jobs.c.state, jobs.c.paused)
    mine = images.c.job_id == jobs.c.id
    counts = {
        "lane": sa.select(sa.func.min(images.c.lane)).where(mine),
        "pictures": sa.select(sa.func.count()).select_from(images).where(mine),
        # As a condition of the search, the state would lead SQLite to the index of all images that are done.
        "done": sa.select(sa.func.count().filter(images.c.state == State.DONE)).where(mine),
    }
    offered = sa.exists().where(mine, offered_lanes.c.lane == images.c.lane)
    reason = sa.select(restrictions.c.reason).where(OF_PAUSE).order_by(restrictions.c.channel_id.desc())
    look = sa.select(
        *(sa.literal_column(str(rank)).label("rank"), *_ORDER, *columns, jobs.c.created_at),
        *(count.scalar_subquery().label(name) for name, count in counts.items()),
        offered.label("offered"),
        (reason.limit(1).scalar_subquery() if kind is PAUSED else sa.cast(sa.null(), sa.Text)).label("pause"),
    ).where(kind, *(conditions[name] for name in sorted(named)))
    # SQLite orders the parts of a union in subqueries only.
    return sa.select(look.order_by(*_ORDER).limit(sa.bindparam("most", type_=sa.Integer)).subquery())
