"""The admission of a request to the session of its channel, within the transaction that stores it.

In a session a person has a separate place in the fair order: `session_tags` keeps the last tag there, as
`last_tags` does outside sessions. See `bot.store.rows.fair_order`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.errors import UserMistake
from bot.domain.holds import Cause, Hold
from bot.domain.jobs import Origin, Showing, State
from bot.store.database.database import count_of, insert
from bot.store.rows import fair_order
from bot.store.rows.sessions import Phase, plan_from, round_over
from bot.store.tables.queue import images, last_tags
from bot.store.tables.sessions import session_jobs, session_tags, sessions

REVIEWED = Hold(cause=Cause.SESSION)
UNCHARGED = (State.FAILED, State.CANCELLED)


@dataclass(frozen=True, kw_only=True)
class Entrance:
    """The session and the round that a new job belongs to; `last_tag` is that of its person there.

    With `hold` its pictures are held for review.
    """

    session_id: str
    round: int
    user_id: int
    last_tag: float
    hold: Hold | None


async def enter(connection: AsyncConnection, row: Any, origin: Origin, *, pictures: int) -> Entrance:
    """Return the entrance into the session of `row`, which is locked for reading.

    Call it after `wait_for_turn`: requests of one person are decided one at a time. Raises UserMistake
    `session_private`, `session_closing`, `session_round_over`, `session_paused`, `session_paused_host`,
    `session_quota` or `session_quota_used`.
    """
    if origin.private:
        raise UserMistake("session_private")
    if row.phase != Phase.PAINTING.value:
        raise round_over(Phase(row.phase))
    if row.paused_at is not None:
        raise UserMistake("session_paused_host" if origin.user_id == row.host_id else "session_paused")
    plan = plan_from(row.plan)
    used = await pictures_of(connection, row.id, row.round, origin.user_id)
    if used >= plan.quota:
        raise UserMistake("session_quota_used", limit=plan.quota)
    if used + pictures > plan.quota:
        raise UserMistake("session_quota", limit=plan.quota, left=plan.quota - used)
    mine = {"session_id": row.id, "user_id": origin.user_id}
    tag = insert(connection, session_tags).values(**mine, tag=0.0)
    same = tag.on_conflict_do_update(
        index_elements=[session_tags.c.session_id, session_tags.c.user_id], set_={"tag": session_tags.c.tag}
    )
    last_tag = await connection.scalar(same.returning(session_tags.c.tag))
    return Entrance(**mine, round=row.round, last_tag=last_tag or 0.0, hold=REVIEWED if plan.review else None)


async def pictures_of(connection: AsyncConnection, session_id: str, round_: int, user_id: int) -> int:
    """Count the pictures of a person's quota that are used: all but failed, cancelled and withheld ones."""
    mine = (session_jobs.c.session_id == session_id) & (session_jobs.c.round == round_)
    mine &= session_jobs.c.user_id == user_id
    counts = images.c.state.not_in(UNCHARGED) & (images.c.showing != Showing.WITHHOLD)
    here = session_jobs.join(images, images.c.job_id == session_jobs.c.job_id)
    return await count_of(connection, here, mine, counts)


async def join_session(
    connection: AsyncConnection, entrance: Entrance, job_id: str, *, last_tag: float
) -> None:
    """Add a stored job to its session, and move its person's place there."""
    row = {"session_id": entrance.session_id, "round": entrance.round, "user_id": entrance.user_id}
    await connection.execute(sa.insert(session_jobs).values(**row, job_id=job_id))
    mine = (session_tags.c.session_id == entrance.session_id) & (session_tags.c.user_id == entrance.user_id)
    await connection.execute(sa.update(session_tags).where(mine).values(tag=last_tag))


async def refund_in_session(connection: AsyncConnection, job_id: str, shares: Iterable[float]) -> bool:
    """Subtract the shares of a job's images that never ran from its person's last tag in a session.

    Returns whether the job belongs to a session.
    """
    of_job = sa.select(session_jobs.c.session_id, session_jobs.c.user_id)
    row = (await connection.execute(of_job.where(session_jobs.c.job_id == job_id))).one_or_none()
    if row is None:
        return False
    # The lock order of requests: a person's own row comes before the row in a session.
    own = sa.select(last_tags.c.user_id).where(last_tags.c.user_id == row.user_id)
    await connection.execute(own.with_for_update())
    mine = (session_tags.c.session_id == row.session_id) & (session_tags.c.user_id == row.user_id)
    tag = session_tags.c.tag - fair_order.refund(shares)
    await connection.execute(sa.update(session_tags).where(mine).values(tag=tag))
    return True


async def lock_channel_session(connection: AsyncConnection, channel_id: int) -> None:
    """Lock the open session of a channel for reading: sessions, jobs, persons is the order of all locks."""
    look = sa.select(sessions.c.id).where(sessions.c.open_channel_id == channel_id)
    await connection.execute(look.with_for_update(read=True))


async def wait_for_turn(connection: AsyncConnection, user_id: int) -> None:
    """Lock the person's row, so that their requests are stored one at a time and each counts the others."""
    mine = insert(connection, last_tags).values(user_id=user_id, tag=0.0)
    # One statement makes or locks the row: between two statements the row can be deleted.
    locked = mine.on_conflict_do_update(index_elements=[last_tags.c.user_id], set_={"tag": last_tags.c.tag})
    await connection.execute(locked)
