"""Caps: the limits on waiting work, by its cost, and the number of images at which a person is slowed.

Rows are counted only up to the cap. Requests of one person are decided one at a time, by the lock on that
person's row. Requests of one server, or of all servers, are decided one at a time only near their cap, so
that transactions seldom wait for each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.errors import UserMistake
from bot.jobs import Caps, Origin, State
from bot.store.database import insert
from bot.store.rows import among
from bot.store.tables import images, jobs, last_tags, turns

NEAR = 500
"""Requests are decided one at a time if fewer places are left: more than arrive at one moment."""
NO_CAPS = Caps()
_EVERYBODY, _DIRECT = "all", "direct"
_WAITS = jobs.c.state == State.WAITING


async def wait_for_turn(connection: AsyncConnection, user_id: int) -> None:
    """Lock the person's row, so that their requests are stored one at a time and each counts the others."""
    mine = insert(connection, last_tags).values(user_id=user_id, tag=0.0)
    # One statement makes or locks the row: between two statements the row can be deleted.
    locked = mine.on_conflict_do_update(index_elements=[last_tags.c.user_id], set_={"tag": last_tags.c.tag})
    await connection.execute(locked)


async def refuse_over(
    connection: AsyncConnection, caps: Caps, origin: Origin, *, places: int = 1, only_looking: bool = False
) -> None:
    """Raise UserMistake `queue_full_user`, `queue_full_server` or `queue_full` where a hard cap is reached.

    Call it after `wait_for_turn`, or with `only_looking` without any lock. A request larger than its cap is
    accepted where nothing else counts against the cap.
    """
    limit = caps.waiting_per_user
    mine = await _waiting(connection, jobs.c.user_id == origin.user_id, 1 if limit is None else limit)
    if limit is not None and _over(mine, places, limit):
        raise UserMistake("queue_full_user", limit=limit)
    look = _Look(connection=connection, places=places, only=only_looking)
    kept = caps.kept if mine else 0.0
    if await look.full(sa.true(), caps.waiting, kept, _EVERYBODY):
        raise UserMistake("queue_full", limit=caps.waiting)
    here = jobs.c.guild_id == origin.guild_id  # all direct messages count as one server
    if await look.full(here, caps.waiting_per_server, kept, str(origin.guild_id or _DIRECT)):
        problem = "queue_full" if origin.guild_id is None else "queue_full_server"
        raise UserMistake(problem, limit=caps.waiting_per_server)


async def room_at_full_share(connection: AsyncConnection, caps: Caps, user_id: int) -> int | None:
    """Return how many more images of this person may wait at full share; None without this cap."""
    if caps.images_at_full_share is None:
        return None
    active = jobs.c.state.in_((State.WAITING, State.RUNNING))
    waiting = (
        sa.select(sa.func.count())
        .select_from(jobs.join(images))
        .where(active, jobs.c.user_id == user_id, among(images, State.WAITING))
    )
    return max(0, caps.images_at_full_share - (await connection.scalar(waiting) or 0))


@dataclass(frozen=True, kw_only=True)
class _Look:
    """Compares one request with caps; with `only`, without locks."""

    connection: AsyncConnection
    places: int
    only: bool

    async def full(self, which: sa.ColumnElement[bool], limit: int | None, kept: float, scope: str) -> bool:
        """Return whether the cap is reached; the fraction `kept` of it is reserved for other people."""
        if limit is None:
            return False
        open_places = limit - int(kept * limit)
        waiting = await _waiting(self.connection, which, limit)
        if self.only or waiting + self.places <= open_places - NEAR:
            return _over(waiting, self.places, open_places)
        turn = insert(self.connection, turns).values(scope=scope).on_conflict_do_nothing()
        await self.connection.execute(turn)
        mine = sa.select(turns.c.scope).where(turns.c.scope == scope)
        await self.connection.execute(mine.with_for_update())
        return _over(await _waiting(self.connection, which, limit), self.places, open_places)


def _over(waiting: int, places: int, limit: int) -> bool:
    return waiting > 0 and waiting + places > limit


async def _waiting(connection: AsyncConnection, which: sa.ColumnElement[bool], limit: int) -> int:
    """Return the places of up to `limit` waiting requests; each request takes at least one place."""
    some = sa.select(jobs.c.places).where(_WAITS, which).limit(limit).subquery()
    return await connection.scalar(sa.select(sa.func.coalesce(sa.func.sum(some.c.places), 0))) or 0
