"""The posts of sessions, which the front that keeps a session sends in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.outbox import Due, Outgoing
from bot.store.database.database import of_row
from bot.store.rows.outbox import UNSETTLED, OutboxVerbs, Shown, ended, is_over
from bot.store.rows.sessions import GroupSession, Post, PostKind, with_timers
from bot.store.tables.outbox import outbox
from bot.store.tables.sessions import session_posts, sessions

SENT = "sent"  # the outcome of a post that was sent


@dataclass(frozen=True, kw_only=True)
class DuePost(Due):
    """A post that is due, and its session."""

    session: GroupSession
    post: Post


class Posts(OutboxVerbs[DuePost]):
    """The verbs of the posts of sessions that a front keeps: of each, the first that is not settled."""

    kind, due = Outgoing.POST, DuePost

    def _of(self, front: str, look: sa.Select[Any]) -> sa.Select[Any]:
        kept = _of_posts(look).join(sessions, sessions.c.id == session_posts.c.session_id)
        return kept.where(sessions.c.keeper == front, ~sessions.c.settled, ~_waits_behind())

    async def _load(self, connection: AsyncConnection, rows: Sequence[Any]) -> Shown:
        look = sa.select(session_posts).where(session_posts.c.id.in_([row.post_id for row in rows]))
        posts = {row.id: row for row in await connection.execute(look)}
        theirs = sa.select(sessions).where(sessions.c.id.in_([row.session_id for row in posts.values()]))
        found = await with_timers(connection, list(await connection.execute(theirs)))
        of_id = {session.id: session for session in found}
        return {
            row.id: {"session": of_id[post.session_id], "post": post_of(post)}
            for row in rows
            if (post := posts[row.post_id]).session_id in of_id and post.kind in set(PostKind)
        }

    async def settle(self, due: DuePost, *, outcome: str) -> None:
        """Store how a post ended; the first outcome stays."""
        async with self._database.write() as connection:
            await ended(connection, due, outcome=outcome, settled_at=self._clock())

    async def is_due(self, session_id: str) -> bool:
        """Return whether the next post of a session is due, or being sent."""
        look = _of_posts(sa.select(is_over(self._clock())).select_from(outbox))
        mine = look.where(session_posts.c.session_id == session_id, UNSETTLED).order_by(session_posts.c.id)
        # without a limit, so that an index finds the session
        return bool(await self._scalar(mine))

    async def unsettled(self, session_id: str) -> list[Post]:
        """Return the posts of a session that are not settled, in their order."""
        look = _of_posts(sa.select(session_posts).select_from(outbox))
        mine = look.where(session_posts.c.session_id == session_id, UNSETTLED)
        return [post_of(row) for row in await self._rows(mine.order_by(session_posts.c.id))]

    async def ballots(self, session: GroupSession) -> list[Post]:
        """Return the ballots of the present round that were sent, in the order of their pages."""
        look = _of_posts(sa.select(session_posts).select_from(outbox))
        mine = (session_posts.c.session_id == session.id) & (session_posts.c.round == session.round)
        sent = look.where(mine, session_posts.c.ballot, outbox.c.outcome == SENT)
        return [post_of(row) for row in await self._rows(sent.order_by(session_posts.c.page))]


def _of_posts(look: sa.Select[Any]) -> sa.Select[Any]:
    return look.join(session_posts, session_posts.c.id == outbox.c.post_id)


def _waits_behind() -> sa.ColumnElement[bool]:
    """Return the condition for posts with an earlier post of their session that is not settled."""
    earlier, before = session_posts.alias(), outbox.alias()
    theirs = (earlier.c.session_id == session_posts.c.session_id) & (earlier.c.id < session_posts.c.id)
    unsettled = (before.c.post_id == earlier.c.id) & before.c.outcome.is_(None)
    return sa.exists().where(theirs, unsettled).correlate(session_posts)


def post_of(row: Any) -> Post:
    """Return the row as plain data."""
    return of_row(Post, row, kind=PostKind(row.kind))
