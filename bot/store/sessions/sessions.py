"""Group sessions: opened, led and closed by hosts, and moved on by timers.

A timer is a row. Whichever process finds it due first acts on it in the transaction that deletes or moves the
row, under the session's lock, so no timer is acted on twice.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.errors import UserMistake
from bot.store.database.database import Verbs, add_new, count_of
from bot.store.rows.audit import Act, By, entries_of, note
from bot.store.rows.outbox import UNSETTLED
from bot.store.rows.revisions import hold_server
from bot.store.rows.sessions import (
    GroupSession,
    Phase,
    Plan,
    PostKind,
    TimerKind,
    lock_session,
    plan_values,
    with_its_timers,
)
from bot.store.sessions.phases import (
    COLLECT_SECONDS,
    HELD_IN_PAUSES,
    announce,
    begin_round,
    change,
    close,
    collect,
    end_round,
    end_vote,
    set_timer,
)
from bot.store.tables.outbox import outbox
from bot.store.tables.queue import audit
from bot.store.tables.sessions import session_posts, session_timers, sessions

MOST_OPEN = 10  # sessions of one server
AT_ONCE_SECONDS = 2.0  # within which a second host does not know of the first
LATEST = 20  # entries of the audit log
ACTED_AT_ONCE = 50
ENDED = (Phase.CLOSING, Phase.CLOSED)
ABANDONED = "abandoned"  # the outcome of the posts of a session whose channel is gone


class Sessions(Verbs):
    """The verbs of hosts, each with its row in the audit log, and that of timers."""

    async def open(self, plan: Plan, by: By, *, channel_id: int, locale: str) -> GroupSession:
        """Open a session in a channel and begin its first round; the person who opens it is its host.

        Raises UserMistake `session_here` where the channel has one, and `sessions_full`.
        """
        now = self._clock()
        values: dict[str, Any] = {"id": secrets.token_hex(4), "guild_id": by.guild_id, "host_id": by.actor_id}
        values |= {"channel_id": channel_id, "open_channel_id": channel_id, "locale": locale}
        values |= {"plan": plan_values(plan), "phase": Phase.RESTING.value, "round": 0, "opened_at": now}
        async with self._telling(results=True) as connection:
            await hold_server(connection, by.guild_id)  # of two at once, one counts the other
            await _check_room(connection, by.guild_id)
            if not await add_new(connection, sessions, values):
                raise UserMistake("session_here")
            session = await lock_session(connection, values["id"])
            await set_timer(connection, session, TimerKind.SESSION, plan.session_seconds, now=now)
            await begin_round(connection, session, now=now)
            opened = await lock_session(connection, session.id)
            await self._note(connection, by, opened, "open", theme=plan.theme)
        return opened

    async def check_room(self, guild_id: int) -> None:
        """Raise UserMistake `sessions_full` where a server has as many open sessions as it may."""
        async with self._database.read() as connection:
            await _check_room(connection, guild_id)

    async def next(self, session_id: str, by: By) -> GroupSession:
        """End the phase before its time: the round, the wait for its pictures, the vote, or the rest.

        Raises UserMistake `session_paused` in a pause, `session_ended` once it is closing, `session_gone`,
        and `session_moved` if another person has done so a moment ago.
        """
        now = self._clock()
        async with self._telling(results=True) as connection:
            session = await self._led(connection, session_id, paused=False)
            await _check_alone(connection, by, session_id, now=now)
            if session.phase is Phase.PAINTING:
                await end_round(connection, session, now=now)
            elif session.phase is Phase.COLLECTING:
                await collect(connection, session, now=now, waits=False)
            elif session.phase is Phase.VOTING:
                await end_vote(connection, session, now=now)
            else:
                await begin_round(connection, session, now=now)
            return await self._changed(connection, by, session_id, "next")

    async def pause(self, session_id: str, by: By) -> GroupSession:
        """Stop the clock of the round or of the vote; raises as `next`."""
        now = self._clock()
        async with self._telling(results=True) as connection:
            session = await self._led(connection, session_id, paused=False)
            await change(connection, session, paused_at=now)
            for kind in HELD_IN_PAUSES:
                if (timer := session.timers.get(kind)) and timer.due_at is not None:
                    left = max(0.0, timer.due_at - now)
                    await set_timer(connection, replace(session, paused=True), kind, left, now=now)
            await announce(connection, session, PostKind.PAUSE, now=now)
            return await self._changed(connection, by, session_id, "pause")

    async def resume(self, session_id: str, by: By) -> GroupSession:
        """Let the clock go on; raises UserMistake `session_not_paused` without a pause, else as `next`."""
        now = self._clock()
        async with self._telling(results=True) as connection:
            session = await self._led(connection, session_id, paused=True)
            await change(connection, session, paused_at=None)
            for kind, timer in session.timers.items():
                if timer.left is not None:
                    await set_timer(connection, replace(session, paused=False), kind, timer.left, now=now)
            await announce(connection, session, PostKind.RESUMPTION, now=now)
            return await self._changed(connection, by, session_id, "resume")

    async def extend(self, session_id: str, by: By, *, seconds: float) -> GroupSession:
        """Give the round or the vote, and the session, more time, even in a pause; else raises as `next`."""
        async with self._telling(results=True) as connection:
            session = await self._led(connection, session_id)
            for kind in (TimerKind.SESSION, *HELD_IN_PAUSES):
                which = (session_timers.c.session_id == session.id) & (session_timers.c.kind == kind.value)
                due, left = session_timers.c.due_at + seconds, session_timers.c.left + seconds
                await connection.execute(sa.update(session_timers).where(which).values(due_at=due, left=left))
            await announce(connection, session, PostKind.EXTENSION, now=self._clock())
            return await self._changed(connection, by, session_id, "extend", seconds=seconds)

    async def close(self, session_id: str, by: By) -> GroupSession:
        """Close a session: a round ends without a vote, a vote with the votes so far; raises as `extend`."""
        now = self._clock()
        async with self._telling(results=True) as connection:
            session = await self._led(connection, session_id)
            await close(connection, session, now=now)
            return await self._changed(connection, by, session_id, "close")

    async def abandon(self, session_id: str) -> None:
        """Close a session whose channel is gone; nothing more is shown of it."""
        gone = {"phase": Phase.CLOSED.value, "open_channel_id": None, "closed_at": self._clock()}
        async with self._database.write() as connection:
            session = await lock_session(connection, session_id)
            which = session_timers.c.session_id == session_id
            await connection.execute(sa.delete(session_timers).where(which))
            row = sa.update(sessions).where(sessions.c.id == session.id)
            await connection.execute(row.values(**gone, settled=True))
            theirs = sa.select(session_posts.c.id).where(session_posts.c.session_id == session_id)
            unsent = sa.update(outbox).where(outbox.c.post_id.in_(theirs), UNSETTLED)
            await connection.execute(unsent.values(outcome=ABANDONED, settled_at=self._clock()))

    async def take_over(self, session_id: str, by: By) -> GroupSession:
        """Make the person who acts the host; raises as `extend`."""
        async with self._telling(results=True) as connection:
            session = await self._led(connection, session_id)
            await change(connection, session, host_id=by.actor_id)
            return await self._changed(connection, by, session_id, "host", subject_id=session.host_id)

    async def here(self, channel_id: int) -> GroupSession | None:
        """Return the open session of a channel; None without one."""
        look = sa.select(sessions).where(sessions.c.open_channel_id == channel_id)
        async with self._database.read() as connection:
            rows = list(await connection.execute(look))
            return await with_its_timers(connection, rows[0]) if rows else None

    async def get(self, session_id: str) -> GroupSession:
        """Return a session; raises UserMistake `session_gone`."""
        look = sa.select(sessions).where(sessions.c.id == session_id)
        async with self._database.read() as connection:
            rows = list(await connection.execute(look))
            if not rows:
                raise UserMistake("session_gone")
            return await with_its_timers(connection, rows[0])

    async def overdue(self) -> list[tuple[str, TimerKind]]:
        """Return the timers that are due, by their sessions, the longest due first."""
        await self._shared.tell_time()
        now, at = self._clock(), session_timers.c.due_at
        set_back = (session_timers.c.kind == TimerKind.COLLECT.value) & (at > now + COLLECT_SECONDS)
        known = session_timers.c.kind.in_([kind.value for kind in TimerKind])
        due = sa.select(session_timers.c.session_id, session_timers.c.kind).where(
            (at <= now) | set_back, known
        )
        ordered = due.order_by(session_timers.c.due_at, session_timers.c.session_id, session_timers.c.kind)
        rows = await self._rows(ordered.limit(ACTED_AT_ONCE))
        return [(row.session_id, TimerKind(row.kind)) for row in rows]

    async def act(self, session_id: str, kind: TimerKind) -> bool:
        """Act on a timer; False where another process has done so, or a host has moved it."""
        now = self._clock()
        async with self._changing() as (connection, changes):
            try:
                session = await lock_session(connection, session_id)
            except UserMistake:
                return False
            timer = session.timers.get(kind)
            if timer is None or timer.due_at is None or not _is_due(kind, timer.due_at, now):
                return False
            if kind is TimerKind.ROUND:
                await end_round(connection, session, now=now)
            elif kind is TimerKind.COLLECT:
                await collect(connection, session, now=now)
            elif kind is TimerKind.VOTE:
                await end_vote(connection, session, now=now)
            else:
                await close(connection, session, now=now)
            changes.results = True
        return True

    async def forget(self, *, before: float, limit: int) -> int:
        """Delete at most `limit` sessions that closed before this time, with their votes; return how many."""
        old = sa.select(sessions.c.id).where(sessions.c.closed_at < before)
        few = await self._scalars(old.order_by(sessions.c.closed_at).limit(limit))
        return await self._write(sa.delete(sessions).where(sessions.c.id.in_(few))) if few else 0

    async def _led(
        self, connection: AsyncConnection, session_id: str, *, paused: bool | None = None
    ) -> GroupSession:
        """Return the locked session; raises UserMistake where it has ended, or is paused or not."""
        session = await lock_session(connection, session_id)
        if session.phase in ENDED:
            raise UserMistake("session_ended")
        if paused is not None and session.paused is not paused:
            raise UserMistake("session_paused" if session.paused else "session_not_paused")
        return session

    async def _changed(
        self, connection: AsyncConnection, by: By, session_id: str, what: str, **facts: Any
    ) -> GroupSession:
        session = await lock_session(connection, session_id)
        await self._note(connection, by, session, what, **facts)
        return session

    async def _note(
        self,
        connection: AsyncConnection,
        by: By,
        session: GroupSession,
        what: str,
        subject_id: int = 0,
        **facts: Any,
    ) -> None:
        after: Mapping[str, Any] = {"session": session.id, "change": what, **_state(session), **facts}
        await note(connection, Act.SESSION, by, at=self._clock(), subject_id=subject_id, after=after)


def _is_due(kind: TimerKind, due_at: float, now: float) -> bool:
    """Return whether a timer is due. A collection further ahead was set before the clock was set back."""
    return due_at <= now or (kind is TimerKind.COLLECT and due_at > now + COLLECT_SECONDS)


async def _check_alone(connection: AsyncConnection, by: By, session_id: str, *, now: float) -> None:
    """Raise UserMistake where another person has just ended the phase that `by` wants to end."""
    which = (audit.c.guild_id == by.guild_id) & (audit.c.act == Act.SESSION.value)
    look = sa.select(audit).where(which).order_by(audit.c.id.desc()).limit(LATEST)
    for entry in entries_of(await connection.execute(look)).values():
        done = entry.after or {}
        same = (done.get("session"), done.get("change")) == (session_id, "next")
        if same and entry.actor_id != by.actor_id and 0 <= now - entry.at < AT_ONCE_SECONDS:
            raise UserMistake("session_moved")


async def _check_room(connection: AsyncConnection, guild_id: int) -> None:
    open_ones = sessions.c.open_channel_id.is_not(None) & (sessions.c.guild_id == guild_id)
    if await count_of(connection, sessions, open_ones) >= MOST_OPEN:
        raise UserMistake("sessions_full", limit=MOST_OPEN)


def _state(session: GroupSession) -> dict[str, Any]:
    return {"channel_id": session.channel_id, "round": session.round, "phase": session.phase.value}
