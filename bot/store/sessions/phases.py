"""The changes from one phase of a session to the next, in the transaction that holds the session's lock.

begin_round   resting ──► painting
end_round     painting ──► collecting
collect       collecting ──► voting, or resting; closing ──► closed
end_vote      voting ──► resting
close         any phase ──► closing, or closed
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.jobs import Showing, State
from bot.domain.outbox import Outgoing
from bot.store.database.database import count_of, insert, put
from bot.store.rows.jobs import among
from bot.store.rows.outbox import add
from bot.store.rows.sessions import GroupSession, Phase, PostKind, TimerKind
from bot.store.rows.transitions import ACTIVE
from bot.store.tables.queue import images, jobs
from bot.store.tables.sessions import session_entries, session_jobs, session_posts, session_timers, sessions

COLLECT_SECONDS = 600.0  # for which the end of a round waits for unfinished pictures
LOOK_SECONDS = 2.0  # between two checks
PAGE_ENTRIES = 20  # on one sheet: a message has room for so many buttons and lines
SEEN = (Showing.SHOW, Showing.SPOILER)
HELD_IN_PAUSES = (TimerKind.ROUND, TimerKind.VOTE)


async def begin_round(connection: AsyncConnection, session: GroupSession, *, now: float) -> None:
    """Begin the next round, and announce it: the board announces the first."""
    await change(connection, session, phase=Phase.PAINTING, round=session.round + 1)
    if (seconds := session.plan.round_seconds) is not None:
        await set_timer(connection, session, TimerKind.ROUND, seconds, now=now)
    if session.round:
        begun = replace(session, round=session.round + 1)
        await announce(connection, begun, PostKind.BEGINNING, now=now)


async def end_round(
    connection: AsyncConnection, session: GroupSession, *, now: float, closes: bool = False
) -> None:
    """Take no further pictures, and collect those of the round."""
    await drop_timers(connection, session, TimerKind.ROUND)
    phase = Phase.CLOSING if closes else Phase.COLLECTING
    await change(connection, session, phase=phase, collect_until=now + COLLECT_SECONDS)
    await set_timer(connection, session, TimerKind.COLLECT, 0.0, now=now)


async def collect(
    connection: AsyncConnection, session: GroupSession, *, now: float, waits: bool = True
) -> None:
    """Go on once the round's pictures are finished; look again later while `waits` and some are not."""
    left = (session.collect_until or 0.0) - now  # more than COLLECT_SECONDS where the clock was set back
    if waits and 0 < left <= COLLECT_SECONDS and await _unfinished(connection, session):
        await set_timer(connection, session, TimerKind.COLLECT, LOOK_SECONDS, now=now)
        return
    await drop_timers(connection, session, TimerKind.COLLECT)
    if session.phase is Phase.CLOSING:
        await _lock_jobs(connection, session)
    count = await _number_entries(connection, session, session.round)
    votes = bool(count and session.plan.vote_seconds and session.phase is Phase.COLLECTING)
    await _add_sheets(connection, session, session.round, count, now=now, ballot=votes)
    if votes:
        await change(connection, session, phase=Phase.VOTING)
        await set_timer(connection, session, TimerKind.VOTE, session.plan.vote_seconds, now=now)
        return
    if count:
        await _add_post(connection, session, PostKind.ARCHIVE, session.round, now=now)
    if session.phase is Phase.CLOSING:
        await _finish(connection, session, now=now)
    else:
        await change(connection, session, phase=Phase.RESTING)


async def end_vote(connection: AsyncConnection, session: GroupSession, *, now: float) -> None:
    """Count the votes: the results and the archive of the round are due, and the ballots are to be closed."""
    await drop_timers(connection, session, TimerKind.VOTE)
    if await _number_entries(connection, session, session.round):  # let through, or finished, meanwhile
        last = (await _last_numbers(connection, session))[session.round]
        await _add_sheets(connection, session, session.round, last, now=now, ballot=False)
    await _add_post(connection, session, PostKind.RESULTS, session.round, now=now)
    await _add_post(connection, session, PostKind.ARCHIVE, session.round, now=now)
    # Last: Discord refuses edits in an archived thread, and the messages before reopen it.
    posts = session_posts.c
    sheets = (posts.session_id == session.id) & (posts.kind == PostKind.SHEET.value) & posts.ballot
    look = sa.select(posts.page).where(sheets, posts.round == session.round).order_by(posts.page)
    for page in list(await connection.scalars(look)):
        await _add_post(connection, session, PostKind.CLOSED_BALLOT, session.round, now=now, page=page)
    await change(connection, session, phase=Phase.RESTING)


async def close(connection: AsyncConnection, session: GroupSession, *, now: float) -> None:
    """End the session, as soon as the pictures of its round are finished."""
    await drop_timers(connection, session, TimerKind.SESSION)
    await change(connection, session, paused_at=None)
    if session.phase in (Phase.PAINTING, Phase.COLLECTING):
        await end_round(connection, session, now=now, closes=True)
        return
    await _lock_jobs(connection, session)
    if session.phase is Phase.VOTING:
        await end_vote(connection, session, now=now)
    await _finish(connection, session, now=now)


async def _finish(connection: AsyncConnection, session: GroupSession, *, now: float) -> None:
    late = await _number_entries(connection, session)
    if session.round > 1 or late:  # otherwise the round's sheet already shows the whole session
        which = session_entries.c.session_id == session.id
        if count := await count_of(connection, session_entries, which):
            await _add_sheets(connection, session, 0, count, now=now, ballot=False)
            await _add_post(connection, session, PostKind.ARCHIVE, 0, now=now)
    await announce(connection, session, PostKind.END, now=now)
    await connection.execute(sa.delete(session_timers).where(session_timers.c.session_id == session.id))
    await change(connection, session, phase=Phase.CLOSED, closed_at=now, open_channel_id=None)


async def announce(connection: AsyncConnection, session: GroupSession, kind: PostKind, *, now: float) -> None:
    """Add a short post to the channel of the session; each announcement of a round is a post of its own."""
    posts = session_posts.c
    earlier = (posts.session_id == session.id) & (posts.kind == kind.value) & (posts.round == session.round)
    page = 1 + await count_of(connection, session_posts, earlier)
    await _add_post(connection, session, kind, session.round, now=now, page=page)


async def change(connection: AsyncConnection, session: GroupSession, **values: Any) -> None:
    """Write values of the session's row."""
    if "phase" in values:
        values["phase"] = values["phase"].value
    await connection.execute(sa.update(sessions).where(sessions.c.id == session.id).values(values))


async def set_timer(
    connection: AsyncConnection, session: GroupSession, kind: TimerKind, seconds: float, *, now: float
) -> None:
    """Set a timer to `seconds` from `now`; in a pause, a round's or vote's to `seconds` after the pause."""
    held = session.paused and kind in HELD_IN_PAUSES
    values = {"due_at": None if held else now + seconds, "left": seconds if held else None}
    await put(connection, session_timers, {"session_id": session.id, "kind": kind.value}, values)


async def drop_timers(connection: AsyncConnection, session: GroupSession, *kinds: TimerKind) -> None:
    """Delete timers of the session."""
    mine = session_timers.c.session_id == session.id
    await connection.execute(sa.delete(session_timers).where(mine, session_timers.c.kind.in_(kinds)))


async def _unfinished(connection: AsyncConnection, session: GroupSession) -> bool:
    look = (
        sa.select(jobs.c.id)
        .join(session_jobs, session_jobs.c.job_id == jobs.c.id)
        .where(session_jobs.c.session_id == session.id, session_jobs.c.round == session.round)
        .where(jobs.c.state.in_(ACTIVE))
    )
    return await connection.scalar(look.limit(1)) is not None


async def _number_entries(connection: AsyncConnection, session: GroupSession, round_: int = 0) -> int:
    """Number the pictures of a round, or of all, that may be seen and have no number; return how many.

    The order is that of the requests. Later pictures get numbers after those of their round.
    """
    await _lock_jobs(connection, session, round_)
    look = (
        sa.select(session_jobs.c.round, images.c.job_id, images.c.index)
        .join(session_jobs, session_jobs.c.job_id == images.c.job_id)
        .join(jobs, jobs.c.id == images.c.job_id)
        .where(_jobs_of(session, round_), unnumbered())
        .order_by(jobs.c.interaction_id, images.c.index)
        .with_for_update(of=images)
    )
    found = [tuple(row) for row in await connection.execute(look)]
    last, rows = await _last_numbers(connection, session), []
    for of_round, job_id, index in found:
        last[of_round] = number = last.get(of_round, 0) + 1
        key = {"session_id": session.id, "round": of_round, "number": number}
        rows.append({**key, "job_id": job_id, "index": index})
    if rows:
        await connection.execute(sa.insert(session_entries), rows)
    return len(rows)


async def _lock_jobs(connection: AsyncConnection, session: GroupSession, round_: int = 0) -> None:
    """Lock the jobs of a round, or of all, in the order of ids.

    A new entry locks the row of its job, and other transactions lock a job before its images. A transaction
    that numbers one round and then all rounds locks all jobs first: one order prevents deadlocks.
    """
    theirs = sa.select(session_jobs.c.job_id).where(_jobs_of(session, round_))
    first = sa.select(jobs.c.id).where(jobs.c.id.in_(theirs)).order_by(jobs.c.id)
    await connection.execute(first.with_for_update(read=True, key_share=True))


def _jobs_of(session: GroupSession, round_: int) -> sa.ColumnElement[bool]:
    mine = session_jobs.c.session_id == session.id
    return mine & (session_jobs.c.round == round_) if round_ else mine


def unnumbered() -> sa.ColumnElement[bool]:
    """Return the condition for images that may be seen and are no entry of their round."""
    entry = session_entries.c
    numbered = sa.exists().where(entry.job_id == images.c.job_id, entry.index == images.c.index)
    seen = images.c.artifact.is_not(None) & images.c.showing.in_(SEEN)
    return among(images, State.DONE) & seen & ~numbered


async def _last_numbers(connection: AsyncConnection, session: GroupSession) -> dict[int, int]:
    """Return the highest number of each round that has one."""
    entry = session_entries.c
    highest = sa.select(entry.round, sa.func.max(entry.number)).where(entry.session_id == session.id)
    return {row[0]: row[1] for row in await connection.execute(highest.group_by(entry.round))}


async def _add_sheets(
    connection: AsyncConnection, session: GroupSession, round_: int, count: int, *, now: float, ballot: bool
) -> None:
    for page in range(1, max(1, math.ceil(count / PAGE_ENTRIES)) + 1):
        await _add_post(connection, session, PostKind.SHEET, round_, now=now, page=page, ballot=ballot)


async def _add_post(
    connection: AsyncConnection,
    session: GroupSession,
    kind: PostKind,
    round_: int,
    *,
    now: float,
    page: int = 1,
    ballot: bool = False,
) -> None:
    row = {"session_id": session.id, "kind": kind.value, "round": round_, "page": page, "ballot": ballot}
    adding = insert(connection, session_posts).values(row).on_conflict_do_nothing()
    added = await connection.scalar(adding.returning(session_posts.c.id))
    if added is not None:
        await add(connection, Outgoing.POST, added, now=now)
