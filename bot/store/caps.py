"""Caps: how much may wait, by what it costs, and from how many pictures on one person's are slowed.

Nothing is counted further than the cap that it is compared with. Who may come in is decided for one person
at a time by their own row; for servers, and for everybody together, only where the cap is near, so that
otherwise nobody waits for anybody.
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
"""Places left from which on people are let in one after the other: more than come in at one moment."""
NO_CAPS = Caps()
_EVERYBODY, _DIRECT = "all", "direct"
_WAITS = jobs.c.state == State.WAITING


async def wait_for_turn(connection: AsyncConnection, user_id: int) -> None:
    """Let the same person's other requests wait until this one is stored, so that each counts the others."""
    mine = insert(connection, last_tags).values(user_id=user_id, tag=0.0)
    # One statement makes the row or locks it: between two, the row can be forgotten.
    locked = mine.on_conflict_do_update(index_elements=[last_tags.c.user_id], set_={"tag": last_tags.c.tag})
    await connection.execute(locked)


async def refuse_over(
    connection: AsyncConnection, caps: Caps, origin: Origin, *, places: int = 1, only_looking: bool = False
) -> None:
    """Raise UserMistake `queue_full_user`, `queue_full_server` or `queue_full` where a hard cap is reached.

    Comes after `wait_for_turn`, or is only a look at how it stands now. A request that is too large for its
    cap is let in where nothing waits that counts against the same one.
    """
    limit = caps.waiting_per_user
    mine = await _waiting(connection, jobs.c.user_id == origin.user_id, 1 if limit is None else limit)
    if limit is not None and _over(mine, places, limit):
        raise UserMistake("queue_full_user", limit=limit)
    look = _Look(connection=connection, places=places, only=only_looking)
    kept = caps.kept if mine else 0.0
    if await look.full(sa.true(), caps.waiting, kept, _EVERYBODY):
        raise UserMistake("queue_full", limit=caps.waiting)
    here = jobs.c.guild_id == origin.guild_id  # direct messages count as one server
    if await look.full(here, caps.waiting_per_server, kept, str(origin.guild_id or _DIRECT)):
        problem = "queue_full" if origin.guild_id is None else "queue_full_server"
        raise UserMistake(problem, limit=caps.waiting_per_server)


async def room_at_full_share(connection: AsyncConnection, caps: Caps, user_id: int) -> int | None:
    """How many more pictures of this person may wait at full share; None where there is no such cap."""
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
    """What caps are compared with for one request; with `only`, without keeping anybody else waiting."""

    connection: AsyncConnection
    places: int
    only: bool

    async def full(self, which: sa.ColumnElement[bool], limit: int | None, kept: float, scope: str) -> bool:
        """Whether there is no room for it, a part `kept` of the limit being for others."""
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
    """How many places those take that wait, of no more requests than `limit`: each takes one at least."""
    some = sa.select(jobs.c.places).where(_WAITS, which).limit(limit).subquery()
    return await connection.scalar(sa.select(sa.func.coalesce(sa.func.sum(some.c.places), 0))) or 0
