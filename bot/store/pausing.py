"""Pauses of channels and servers, as they are written on jobs and images.

While a pause holds where a job was asked for, the column `paused` of the job and of its images is true, and
claims and counts skip them by an index, however many wait. A job that is stored while a pause begins may lack
the mark, so a claim looks at the pauses too.

The clock of the fair order goes on during a pause. At its end each person's images are tagged as if they were
asked for now: time in a pause earns no credit, as idle time does not.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.jobs import State
from bot.store.tables import images, jobs, last_tags, restrictions, virtual_clock
from bot.store.transitions import ACTIVE

PAUSE = "pause"
OF_PAUSE = sa.and_(
    restrictions.c.kind == PAUSE,
    restrictions.c.guild_id == jobs.c.guild_id,
    restrictions.c.channel_id.in_((sa.literal(0), jobs.c.channel_id)),
)
"""The condition for the pauses of a job's channel and server."""
IS_PAUSED = sa.exists().where(OF_PAUSE)
_ACTIVE = sa.or_(*(jobs.c.state == state for state in ACTIVE))  # for executemany, which takes no IN


async def pause_jobs(connection: AsyncConnection, guild_id: int, channel_id: int) -> None:
    """Mark the active jobs of a channel, or of a server where `channel_id` is 0; running images finish."""
    here = _place(guild_id, channel_id) & _ACTIVE
    theirs = await _lock(connection, here & ~jobs.c.paused)
    await connection.execute(sa.update(images).where(theirs).values(paused=True))
    await connection.execute(sa.update(jobs).where(here).values(paused=True))


async def resume_jobs(connection: AsyncConnection, guild_id: int, channel_id: int) -> None:
    """Let the jobs go on that no other pause holds; the row of the ended pause is deleted already."""
    here = _place(guild_id, channel_id) & _ACTIVE & jobs.c.paused & ~IS_PAUSED
    theirs = await _lock(connection, here)
    await _tag_anew(connection, here)
    await connection.execute(sa.update(images).where(theirs).values(paused=False))
    await connection.execute(sa.update(jobs).where(here).values(paused=False))


def _place(guild_id: int, channel_id: int) -> sa.ColumnElement[bool]:
    here = jobs.c.guild_id == guild_id
    return here & (jobs.c.channel_id == channel_id) if channel_id else here


async def _lock(connection: AsyncConnection, which: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """Lock these jobs and their images in the order of all transactions; return the images' condition."""
    theirs = images.c.job_id.in_(sa.select(jobs.c.id).where(which))
    for column, condition in ((jobs.c.id, which), (images.c.id, theirs)):
        locked = sa.select(column).where(condition).order_by(column).with_for_update().cte("locked")
        await connection.execute(sa.select(sa.func.count()).select_from(locked))
    return theirs


async def _tag_anew(connection: AsyncConnection, which: sa.ColumnElement[bool]) -> None:
    """Move the tags of each person's waiting images in these jobs: the first begins at virtual time."""
    waiting = images.c.state == State.WAITING
    begin, end = sa.func.min(images.c.tag - images.c.share), sa.func.max(images.c.tag)
    look = sa.select(jobs.c.user_id, begin.label("begin"), end.label("end")).join(images)
    rows = await connection.execute(look.where(which, waiting).group_by(jobs.c.user_id))
    now = await connection.scalar(sa.select(virtual_clock.c.time)) or 0.0
    moves = [
        {"whose": row.user_id, "by": now - row.begin, "last": row.end + now - row.begin}
        for row in sorted(rows, key=lambda row: int(row.user_id))  # one lock order for all transactions
        if row.begin < now
    ]
    if not moves:
        return
    by, last = sa.bindparam("by"), sa.bindparam("last")
    mine = which & (jobs.c.user_id == sa.bindparam("whose"))
    theirs = images.c.job_id.in_(sa.select(jobs.c.id).where(mine)) & waiting
    await connection.execute(sa.update(images).where(theirs).values(tag=images.c.tag + by), moves)
    await connection.execute(sa.update(jobs).where(mine).values(tag=jobs.c.tag + by), moves)
    later = sa.case((last_tags.c.tag < last, last), else_=last_tags.c.tag)
    own = sa.update(last_tags).where(last_tags.c.user_id == sa.bindparam("whose"))
    await connection.execute(own.values(tag=later), moves)
