"""Moderation: who is blocked, where painting is paused, and the log of these acts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.store.database.database import Verbs, add_new, of_row
from bot.store.rows.audit import EVERYWHERE, NOBODY, Act, By, Entry, entries_of, note
from bot.store.rows.jobs import first_readable
from bot.store.rows.pauses import pause_jobs, resume_jobs
from bot.store.tables.queue import audit, restrictions


class Kind(StrEnum):
    """A block refuses requests; during a pause requests wait."""

    BLOCK = "block"
    PAUSE = "pause"


ACTS: Mapping[Kind, tuple[Act, Act]] = {
    Kind.BLOCK: (Act.BLOCK, Act.UNBLOCK),
    Kind.PAUSE: (Act.PAUSE, Act.RESUME),
}
"""The acts in the log for the start and the end of each kind of restriction."""


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The server, channel and person of a restriction; 0 stands for all."""

    guild_id: int = 0
    channel_id: int = 0
    user_id: int = 0


@dataclass(frozen=True, kw_only=True)
class Restriction:
    """A block or a pause.

    `until` is in seconds since the epoch, None for good; `by` is 0 for the operator.
    """

    kind: Kind
    scope: Scope
    until: float | None
    reason: str
    by: int
    at: float


class Moderation(Verbs):
    """The verbs of moderation; each that changes something adds its row to the log."""

    async def block(self, scope: Scope, by: By, *, until: float | None = None) -> Restriction:
        """Block a person in a server or everywhere, or a server; an earlier block is replaced."""
        return await self._restrict(Kind.BLOCK, scope, by, until)

    async def unblock(self, scope: Scope, by: By) -> Restriction | None:
        """End a block and return it; None where none holds."""
        return await self._lift(Kind.BLOCK, scope, by)

    async def pause(self, scope: Scope, by: By) -> Restriction:
        """Pause a channel or a server: waiting images are not claimed. It replaces an earlier pause."""
        return await self._restrict(Kind.PAUSE, scope, by, None)

    async def resume(self, scope: Scope, by: By) -> Restriction | None:
        """End a pause and return it; None where none holds."""
        return await self._lift(Kind.PAUSE, scope, by)

    async def in_force(self, guild_id: int) -> list[Restriction]:
        """Return the restrictions that hold in a server, pauses last, each kind in the order of its time."""
        here = OF_ANY_KIND & (restrictions.c.guild_id == guild_id)
        look = sa.select(restrictions).where(here, _holds(self._clock()))
        ordered = look.order_by(restrictions.c.kind, restrictions.c.at, restrictions.c.user_id)
        return [restriction_from(row) for row in await self._rows(ordered)]

    async def by_operator(self) -> list[Restriction]:
        """Return the operator's blocks of persons and servers that hold, in the order of their time."""
        key = restrictions.c
        block = key.kind == Kind.BLOCK.value
        whole = sa.or_(
            block & (key.guild_id == EVERYWHERE), (key.user_id == NOBODY) & (key.kind != Kind.PAUSE.value)
        )
        look = sa.select(restrictions).where(whole, _holds(self._clock()))
        rows = await self._rows(look.order_by(key.at, key.guild_id, key.user_id))
        return [restriction_from(row) for row in rows]

    async def of_person(self, user_id: int) -> list[Restriction]:
        """Return the blocks of one person, in every server."""
        look = sa.select(restrictions).where(restrictions.c.user_id == user_id, _holds(self._clock()))
        return [restriction_from(row) for row in await self._rows(look.order_by(restrictions.c.at))]

    async def lapse(self) -> int:
        """Delete the expired restrictions, which no longer apply, and return how many."""
        over = sa.delete(restrictions).where(restrictions.c.until <= self._clock())
        return await self._write(over)

    async def forget(self, *, before: float, limit: int) -> int:
        """Delete rows of the log older than this among the oldest `limit`; return how many.

        The database refuses to delete rows that are younger than 30 days.
        """
        oldest = sa.select(audit.c.id, audit.c.at).order_by(audit.c.id).limit(limit)
        old = [row.id for row in await self._rows(oldest) if row.at < before]
        if not old:
            return 0
        return await self._write(sa.delete(audit).where(audit.c.id.in_(old)))

    async def entries(
        self,
        guild_id: int | None,
        *,
        actor_id: int | None = None,
        subject_id: int | None = None,
        person_id: int | None = None,
        act: Act | None = None,
        older_than: int | None = None,
        newer_than: int | None = None,
        limit: int,
    ) -> list[Entry]:
        """Return the rows of a server's log, or of all: the newest, or those next to an id, newest first.

        `person_id` is the actor or the subject. `older_than` and `newer_than` are ids of rows.
        """
        column = audit.c
        wanted: dict[sa.Column[Any], Any] = {column.guild_id: guild_id, column.act: act and act.value}
        wanted |= {column.actor_id: actor_id, column.subject_id: subject_id}
        look = sa.select(audit).where(*(key == value for key, value in wanted.items() if value is not None))
        if older_than is not None:
            look = look.where(column.id < older_than)
        if newer_than is not None:
            look = look.where(column.id > newer_than)
        up = newer_than is not None
        looks = [look]
        if person_id is not None:  # one statement for each index
            looks = [look.where(each == person_id) for each in (column.actor_id, column.subject_id)]
        found: dict[int, Entry] = {}
        async with self._database.read(much=guild_id is None) as connection:
            for each in looks:
                ordered = each.order_by(column.id if up else column.id.desc())
                entries = await first_readable(connection, ordered, _entries, limit=limit)
                found |= {entry.id: entry for entry in entries}
        nearest = sorted(found, reverse=not up)[:limit]
        return [found[each] for each in sorted(nearest, reverse=True)]

    async def _restrict(self, kind: Kind, scope: Scope, by: By, until: float | None) -> Restriction:
        new = Restriction(
            kind=kind, scope=scope, until=until, reason=by.reason, by=by.actor_id, at=self._clock()
        )
        async with self._database.write() as connection:
            old = await _put(connection, new)
            if kind is Kind.PAUSE:
                await pause_jobs(connection, scope.guild_id, scope.channel_id)
            await self._note(connection, ACTS[kind][0], scope, by, before=old, after=new)
        return new

    async def _lift(self, kind: Kind, scope: Scope, by: By) -> Restriction | None:
        gone = sa.delete(restrictions).where(_of(kind, scope)).returning(*restrictions.c)
        async with self._changing() as (connection, changes):
            row = (await connection.execute(gone)).one_or_none()
            if row is None or not (row.until is None or row.until > self._clock()):
                return None
            if kind is Kind.PAUSE:
                await resume_jobs(connection, scope.guild_id, scope.channel_id)
                changes.work = True
            old = restriction_from(row)
            await self._note(connection, ACTS[kind][1], scope, by, before=old, after=None)
        return old

    async def _note(
        self,
        connection: AsyncConnection,
        act: Act,
        scope: Scope,
        by: By,
        *,
        before: Restriction | None,
        after: Restriction | None,
    ) -> None:
        changed = {"before": _facts(before), "after": _facts(after)}
        await note(connection, act, by, at=self._clock(), subject_id=scope.user_id, **changed)


def _holds(now: float | sa.BindParameter[float]) -> sa.ColumnElement[bool]:
    return restrictions.c.until.is_(None) | (restrictions.c.until > now)


def _or_all(name: str) -> list[sa.ColumnElement[int]]:
    return [sa.literal_column("0"), sa.bindparam(name, type_=sa.BigInteger)]


OF_ANY_KIND = restrictions.c.kind.in_([sa.literal_column(f"'{kind.value}'") for kind in Kind])
"""A condition that lets the primary key, which begins with the kind, find the rows of a server."""
RESTRICTS = sa.and_(
    OF_ANY_KIND,
    restrictions.c.guild_id.in_(_or_all("guild")),
    restrictions.c.channel_id.in_([*_or_all("channel"), sa.bindparam("parent", type_=sa.BigInteger)]),
    restrictions.c.user_id.in_(_or_all("user")),
    _holds(sa.bindparam("now", type_=sa.Double)),
)
"""Restrictions in force at `now` for `user` in `channel` of `guild`; `parent` is a thread's channel."""


def _of(kind: Kind, scope: Scope) -> sa.ColumnElement[bool]:
    key = restrictions.c
    here = (key.guild_id == scope.guild_id) & (key.channel_id == scope.channel_id)
    return (key.kind == kind.value) & here & (key.user_id == scope.user_id)


async def _put(connection: AsyncConnection, new: Restriction) -> Restriction | None:
    """Store a restriction and return the replaced one; of two at the same time, one replaces the other."""
    scope = new.scope
    key = {"guild_id": scope.guild_id, "channel_id": scope.channel_id, "user_id": scope.user_id}
    values = {"until": new.until, "reason": new.reason, "by": new.by, "at": new.at}
    look = sa.select(restrictions).where(_of(new.kind, scope)).with_for_update()
    while not await add_new(connection, restrictions, {"kind": new.kind.value, **key, **values}):
        row = (await connection.execute(look)).one_or_none()
        if row is not None:  # None: it was deleted between the two statements
            await connection.execute(sa.update(restrictions).where(_of(new.kind, scope)).values(values))
            return restriction_from(row)
    return None


def restriction_from(row: Any) -> Restriction:
    """Return the restriction of a row."""
    return of_row(Restriction, row, kind=Kind(row.kind), scope=of_row(Scope, row))


def _facts(restriction: Restriction | None) -> dict[str, Any] | None:
    """Return the log's data of a restriction, without ids of persons."""
    if restriction is None:
        return None
    facts: dict[str, Any] = {"until": restriction.until, "reason": restriction.reason}
    if restriction.scope.channel_id:
        facts["channel_id"] = restriction.scope.channel_id
    return facts


async def _entries(rows: Sequence[Any]) -> list[Entry]:
    return list(entries_of(rows).values())
