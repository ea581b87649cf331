"""The queue as operators see it: the requests that run or wait, in fair order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import sqlalchemy as sa

from bot.domain.jobs import State
from bot.store.database.database import Verbs, of_row
from bot.store.queue.jobs import PAUSED, RUNS, WAITS
from bot.store.rows.pauses import OF_PAUSE
from bot.store.tables.queue import images, jobs, offered_lanes, restrictions

_ORDER = (jobs.c.tag, jobs.c.interaction_id)
_KINDS = {"running": (RUNS,), "waiting": (WAITS,), "paused": (PAUSED,)}
KINDS = tuple(_KINDS)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which requests are listed: of one of KINDS, person, server, model; all where nothing is said."""

    kind: str = ""
    user_id: int | None = None
    guild_id: int | None = None
    model: str = ""


@dataclass(frozen=True, kw_only=True)
class Listed:
    """A request that runs or waits: `done` of its `pictures` are painted, all of them of this `lane`.

    `offered` says whether a worker paints that lane. `place` is its place among the requests that wait; None
    for others. `pause` is why it waits in a pause.
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


class Queue(Verbs):
    """The verbs of the queue."""

    async def listed(self, wanted: Wanted, *, limit: int) -> list[Listed]:
        """Return the first requests that fit: those that run, that wait, that wait in a pause."""
        named = {"user_id": wanted.user_id, "guild_id": wanted.guild_id, "model": wanted.model or None}
        values = {name: value for name, value in named.items() if value is not None}
        look = _look(_KINDS.get(wanted.kind) or (RUNS, WAITS, PAUSED), frozenset(values))
        rows = await self._database.look(look, {**values, "most": limit})
        return [of_row(Listed, row) for row in sorted(rows, key=lambda row: row[:3])[:limit]]


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
    }
    columns = (jobs.c.id, jobs.c.user_id, jobs.c.user_name, jobs.c.guild_id, jobs.c.state, jobs.c.paused)
    mine = images.c.job_id == jobs.c.id
    counts = {
        "lane": sa.select(sa.func.min(images.c.lane)).where(mine),
        "pictures": sa.select(sa.func.count()).select_from(images).where(mine),
        "done": sa.select(sa.func.count()).select_from(images).where(mine, images.c.state == State.DONE),
    }
    offered = sa.exists().where(mine, offered_lanes.c.lane == images.c.lane)
    place = sa.func.row_number().over(order_by=_ORDER)
    places = sa.select(jobs.c.id, place.label("place")).where(WAITS).subquery("places")
    reason = sa.select(restrictions.c.reason).where(OF_PAUSE).order_by(restrictions.c.channel_id.desc())
    look = sa.select(
        *(sa.literal_column(str(rank)).label("rank"), *_ORDER, *columns, jobs.c.created_at),
        *(count.scalar_subquery().label(name) for name, count in counts.items()),
        offered.label("offered"),
        (places.c.place if kind is WAITS else sa.cast(sa.null(), sa.BigInteger)).label("place"),
        (reason.limit(1).scalar_subquery() if kind is PAUSED else sa.cast(sa.null(), sa.Text)).label("pause"),
    ).where(kind, *(conditions[name] for name in sorted(named)))
    look = look.join(places, places.c.id == jobs.c.id) if kind is WAITS else look
    # SQLite orders the parts of a union in subqueries only.
    return sa.select(look.order_by(*_ORDER).limit(sa.bindparam("most", type_=sa.Integer)).subquery())
