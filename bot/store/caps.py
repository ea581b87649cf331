"""Caps: how many requests may wait, and from how many pictures on one person's are slowed.

Nothing is counted further than the cap that it is compared with. Who may come in is decided for one person
at a time by their own row; for servers, and for everybody together, only where the cap is near, so that
otherwise nobody waits for anybody.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.errors import UserMistake
from bot.jobs import Caps, Origin, State
from bot.store.database import insert
from bot.store.tables import images, jobs, last_tags, turns
from bot.store.transitions import among

NEAR = 500
"""Places left from which on people are let in one after the other: more than come in at one moment."""
NO_CAPS = Caps()
_EVERYBODY = "all"
_WAITS = jobs.c.state == State.WAITING


async def wait_for_turn(connection: AsyncConnection, user_id: int) -> None:
    """Let the same person's other requests wait until this one is stored, so that each counts the others."""
    await connection.execute(
        insert(connection, last_tags).values(user_id=user_id, tag=0.0).on_conflict_do_nothing()
    )
    mine = sa.select(last_tags.c.tag).where(last_tags.c.user_id == user_id)
    await connection.execute(mine.with_for_update())


async def refuse_over(
    connection: AsyncConnection, caps: Caps, origin: Origin, *, only_looking: bool = False
) -> None:
    """Raise UserMistake `queue_full_user`, `queue_full_server` or `queue_full` where a hard cap is reached.

    Comes after `wait_for_turn`, or is only a look at how it stands now.
    """
    limit = caps.waiting_per_user
    mine = jobs.c.user_id == origin.user_id
    if limit is not None and await _waiting(connection, mine, limit) >= limit:
        raise UserMistake("queue_full_user", limit=limit)
    here = jobs.c.guild_id == origin.guild_id
    if origin.guild_id is not None and await _full(
        connection, here, caps.waiting_per_server, str(origin.guild_id), only_looking=only_looking
    ):
        raise UserMistake("queue_full_server", limit=caps.waiting_per_server)
    if await _full(connection, sa.true(), caps.waiting, _EVERYBODY, only_looking=only_looking):
        raise UserMistake("queue_full", limit=caps.waiting)


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


async def _full(
    connection: AsyncConnection,
    which: sa.ColumnElement[bool],
    limit: int | None,
    scope: str,
    *,
    only_looking: bool,
) -> bool:
    if limit is None:
        return False
    waiting = await _waiting(connection, which, limit)
    if only_looking or waiting <= limit - NEAR:
        return waiting >= limit
    await connection.execute(insert(connection, turns).values(scope=scope).on_conflict_do_nothing())
    await connection.execute(sa.select(turns.c.scope).where(turns.c.scope == scope).with_for_update())
    return await _waiting(connection, which, limit) >= limit


async def _waiting(connection: AsyncConnection, which: sa.ColumnElement[bool], limit: int) -> int:
    """How many requests of these wait, counted no further than `limit`."""
    some = sa.select(sa.literal(1)).select_from(jobs).where(_WAITS, which).limit(limit).subquery()
    return await connection.scalar(sa.select(sa.func.count()).select_from(some)) or 0
