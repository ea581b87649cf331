"""Pauses of channels and servers: how they mark jobs and images.

A pause of a channel holds in its threads. While a job's place is paused, the column `paused` of the job and
of its images is true, and claims and counts skip them by an index. A job that is stored while a pause starts
may lack the mark, so a claim reads the pauses too.

A request may have a pause of its own too, in the column `paused_alone`.

Virtual time goes on during a pause. At its end each person's images are tagged as if they were requested now:
like idle time, time in a pause earns no credit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.jobs import State
from bot.store.rows.jobs import among
from bot.store.rows.transitions import ACTIVE
from bot.store.tables.queue import images, jobs, last_tags, restrictions, virtual_clock
from bot.store.tables.sessions import session_jobs, session_tags

PAUSE = "pause"
OF_PAUSE = sa.and_(
    restrictions.c.kind == PAUSE,
    restrictions.c.guild_id == jobs.c.guild_id,
    restrictions.c.channel_id.in_((sa.literal(0), jobs.c.channel_id, jobs.c.thread_parent_id)),
)
"""The condition for the pauses of a job's channel, for a thread also of its channel, and of the server."""
IS_PAUSED = sa.exists().where(OF_PAUSE)
_IS_FREE = ~IS_PAUSED & ~jobs.c.paused_alone
Flow = tuple[str | None, int]
"""A session's id, None outside sessions, and a person's id: each pair has tags of its own."""
_KEY: sa.BindParameter[Any] = sa.bindparam("key")
_NEW: sa.BindParameter[float] = sa.bindparam("new")
JOBS_AT_ONCE = 1000  # a statement of SQLite or PostgreSQL takes about 32,000 values


async def pause_jobs(connection: AsyncConnection, guild_id: int, channel_id: int) -> None:
    """Mark the active jobs of a channel and its threads, or of a server where `channel_id` is 0.

    Running images finish.
    """
    await _mark(
        connection, await _lock(connection, _place(guild_id, channel_id) & ~jobs.c.paused), paused=True
    )


async def resume_jobs(connection: AsyncConnection, guild_id: int, channel_id: int) -> None:
    """Unmark the jobs that no other pause holds; the row of the ended pause is deleted already."""
    job_ids = await _lock(connection, _place(guild_id, channel_id) & jobs.c.paused & _IS_FREE)
    await retag(connection, job_ids)
    await _mark(connection, job_ids, paused=False)


async def pause_job(connection: AsyncConnection, job_id: str) -> bool:
    """Give an active job a pause of its own; False where it has one, or has ended. Running images finish."""
    active = (jobs.c.id == job_id) & jobs.c.state.in_(ACTIVE) & ~jobs.c.paused_alone
    found = await _lock(connection, active)
    await _mark(connection, found, paused=True)
    await _set_alone(connection, found, paused=True)
    return bool(found)


async def resume_job(connection: AsyncConnection, job_id: str) -> bool:
    """End a job's own pause; False where it has none. A pause of its place still holds it."""
    found = await _lock(connection, (jobs.c.id == job_id) & jobs.c.state.in_(ACTIVE) & jobs.c.paused_alone)
    await _set_alone(connection, found, paused=False)
    free = list(await connection.scalars(sa.select(jobs.c.id).where(jobs.c.id.in_(found), _IS_FREE)))
    await retag(connection, free)
    await _mark(connection, free, paused=False)
    return bool(found)


async def _set_alone(connection: AsyncConnection, job_ids: Sequence[str], *, paused: bool) -> None:
    await connection.execute(sa.update(jobs).where(jobs.c.id.in_(job_ids)).values(paused_alone=paused))


def _place(guild_id: int, channel_id: int) -> sa.ColumnElement[bool]:
    here = jobs.c.state.in_(ACTIVE) & (jobs.c.guild_id == guild_id)
    inside = (jobs.c.channel_id == channel_id) | (jobs.c.thread_parent_id == channel_id)
    return here & inside if channel_id else here


async def _lock(connection: AsyncConnection, which: sa.ColumnElement[bool]) -> list[str]:
    """Lock these jobs and their running images, in the order of all transactions; return the jobs' ids."""
    ordered = sa.select(jobs.c.id).where(which).order_by(jobs.c.id)
    job_ids = list(await connection.scalars(ordered.with_for_update()))
    # Heartbeats lock running images without their jobs.
    running = sa.select(images.c.id).join(jobs).where(images.c.state == State.RUNNING, which)
    await connection.execute(running.order_by(images.c.id).with_for_update(of=images))
    return job_ids


async def _mark(connection: AsyncConnection, job_ids: Sequence[str], *, paused: bool) -> None:
    for some in _chunks(job_ids):
        await connection.execute(sa.update(images).where(images.c.job_id.in_(some)).values(paused=paused))
        await connection.execute(sa.update(jobs).where(jobs.c.id.in_(some)).values(paused=paused))


async def retag(connection: AsyncConnection, job_ids: Sequence[str]) -> None:
    """Move the tags of each person's waiting images in these jobs: the first starts at virtual time."""
    columns = images.c.id, images.c.job_id, images.c.tag, images.c.share, jobs.c.user_id
    look = sa.select(*columns, session_jobs.c.session_id).join(jobs, jobs.c.id == images.c.job_id)
    look = look.outerjoin(session_jobs, session_jobs.c.job_id == jobs.c.id)
    look = look.where(among(images, State.WAITING))
    rows: list[Any] = []
    for some in _chunks(job_ids):
        rows += await connection.execute(look.where(jobs.c.id.in_(some)))
    now = await connection.scalar(sa.select(virtual_clock.c.time)) or 0.0
    begins: dict[Flow, float] = {}
    for row in rows:
        flow = row.session_id, row.user_id
        begins[flow] = min(begins.get(flow, now), row.tag - row.share)
    late = {flow: now - begin for flow, begin in begins.items() if begin < now}
    moved = [row for row in rows if (row.session_id, row.user_id) in late]
    if not moved:
        return
    by = {row.job_id: late[row.session_id, row.user_id] for row in moved}
    new_tags = [{"key": row.id, "new": row.tag + by[row.job_id]} for row in moved]
    await connection.execute(sa.update(images).where(images.c.id == _KEY).values(tag=_NEW), new_tags)
    later = [{"key": job_id, "new": each} for job_id, each in sorted(by.items())]
    await connection.execute(sa.update(jobs).where(jobs.c.id == _KEY).values(tag=jobs.c.tag + _NEW), later)
    ends: dict[Flow, float] = {}
    for row in moved:
        flow = row.session_id, row.user_id
        ends[flow] = max(ends.get(flow, 0.0), row.tag + late[flow])
    await _move_ends(connection, ends)


async def _move_ends(connection: AsyncConnection, ends: Mapping[Flow, float]) -> None:
    """Raise the last tags of persons, then those in sessions: the order of all locks."""
    last = sorted(
        ({"key": user_id, "new": end} for (session_id, user_id), end in ends.items() if session_id is None),
        key=lambda each: each["key"],
    )
    if last:
        own = sa.update(last_tags).where(last_tags.c.user_id == _KEY, last_tags.c.tag < _NEW)
        await connection.execute(own.values(tag=_NEW), last)
    for (session_id, user_id), end in sorted((flow, end) for flow, end in ends.items() if flow[0]):
        mine = (session_tags.c.session_id == session_id) & (session_tags.c.user_id == user_id)
        there = sa.update(session_tags).where(mine, session_tags.c.tag < end)
        await connection.execute(there.values(tag=end))


def _chunks(job_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(job_ids), JOBS_AT_ONCE):
        yield job_ids[start : start + JOBS_AT_ONCE]
