"""The rows of the outbox: which messages are due, who sends them, and how they end.

A message is due until it has an outcome. Each claim raises its fencing token: an attempt with an earlier
token changes nothing. A front may claim its own messages again, after a restart for instance.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.outbox import Due, Outgoing
from bot.store.database.database import Verbs, insert
from bot.store.rows.jobs import MOST_NEWER
from bot.store.tables.outbox import outbox

FURTHEST_RETRY = 900.0  # seconds; no pause between two attempts is longer
SUBJECTS: Mapping[Outgoing, sa.Column[Any]] = MappingProxyType(
    {
        Outgoing.RESULT: outbox.c.job_id,
        Outgoing.REVIEW: outbox.c.review_id,
        Outgoing.POST: outbox.c.post_id,
    }
)
UNSETTLED = outbox.c.outcome.is_(None)
"""The condition for messages that are on their way."""

T = TypeVar("T")
Load = Callable[[AsyncConnection, Sequence[Any]], Awaitable[Mapping[int, T]]]
"""Returns what rows of the outbox show, by their ids, without what this version cannot read."""


class OutboxVerbs(Verbs):
    """The verbs that all kinds of messages share."""

    async def retry(self, due: Due, *, at: float) -> None:
        """Make a message due again at `at`, in seconds since the epoch, after a failed attempt.

        Nothing changes after a later claim of the message.
        """
        async with self._database.write() as connection:
            await ended(connection, due, next_try_at=at, front=None)

    async def _look(self, kind: Outgoing, *, held: Collection[int]) -> sa.Select[Any]:
        """Return the select of messages that are due now."""
        await self._shared.tell_time()
        return look_for(kind, self._clock(), held=held)

    async def _finds(self, look: sa.Select[Any]) -> bool:
        """Return whether a message is due: it is polled often, and one rarely is."""
        async with self._database.read() as connection:
            return (await connection.execute(look.limit(1))).first() is not None

    async def _claim(
        self,
        connection: AsyncConnection,
        look: sa.Select[Any],
        load: Load[T],
        *,
        limit: int,
        **values: Any,
    ) -> list[tuple[dict[str, int], T]]:
        """Claim the rows of `look`, and return the values of `Due` for each, with what it shows."""
        found = await readable(connection, look, load, limit=limit)
        raised = {"fencing_token": outbox.c.fencing_token + 1, **values}
        mine = sa.update(outbox).where(outbox.c.id.in_([row.id for row, _ in found])).values(raised)
        rows = await connection.execute(mine.returning(outbox.c.id, outbox.c.fencing_token))
        tokens = {row.id: row.fencing_token for row in rows}
        return [
            ({"id": row.id, "attempts": row.attempts, "fencing_token": tokens[row.id]}, shown)
            for row, shown in found
        ]


def look_for(kind: Outgoing, now: float, *, held: Collection[int] = ()) -> sa.Select[Any]:
    """Return the select of messages that are due now, the longest due first.

    `held` are the rows that the front is sending now. A retry time beyond the longest pause means that the
    clock was set back: the row is due, as is a row that was not tried yet.
    """
    at = outbox.c.next_try_at
    over = (at <= now) | (at > now + FURTHEST_RETRY) | (outbox.c.attempts == 0)
    columns = outbox.c.id, SUBJECTS[kind], outbox.c.attempts, outbox.c.fencing_token
    due = sa.select(*columns).where(outbox.c.kind == kind.value, UNSETTLED, over)
    return due.where(outbox.c.id.not_in(held)).order_by(at, outbox.c.id)


async def readable(
    connection: AsyncConnection, look: sa.Select[Any], load: Load[T], *, limit: int
) -> list[tuple[Any, T]]:
    """Return the first `limit` rows of `look` that this version can read, each with what it shows."""
    passed: set[int] = set()
    while True:
        others = look.where(outbox.c.id.not_in(passed)) if passed else look
        rows = list(await connection.execute(others.limit(limit)))
        found = await load(connection, rows)
        if len(found) == len(rows) or len(passed) > MOST_NEWER:
            return [(row, found[row.id]) for row in rows if row.id in found]
        passed |= {row.id for row in rows} - found.keys()


async def add(connection: AsyncConnection, kind: Outgoing, subject: str | int, *, now: float) -> None:
    """Add a message that is due at once, unless there is one of this subject."""
    row = {"kind": kind.value, SUBJECTS[kind].name: subject, "created_at": now}
    await connection.execute(
        insert(connection, outbox).values(**row, attempts=0, next_try_at=now).on_conflict_do_nothing()
    )


async def renew(
    connection: AsyncConnection, kind: Outgoing, subjects: Collection[Any] | sa.Select[Any], *, now: float
) -> None:
    """Make the messages of these subjects due again, because they must change.

    An attempt under way can no longer settle them. Any front may send them.
    """
    anew = {"outcome": None, "settled_at": None, "attempts": 0, "next_try_at": now, "created_at": now}
    token = {"fencing_token": outbox.c.fencing_token + 1, "front": None}
    theirs = sa.update(outbox).where(SUBJECTS[kind].in_(subjects))
    await connection.execute(theirs.values({**anew, **token}))


async def ended(connection: AsyncConnection, due: Due, **values: Any) -> bool:
    """End an attempt with these values; False, and no change, after a later claim or once it is settled."""
    kind, subject = due.subject
    # The subject too, because SQLite reuses the ids of deleted rows.
    ours = (outbox.c.id == due.id) & (SUBJECTS[kind] == subject)
    ours &= (outbox.c.fencing_token == due.fencing_token) & UNSETTLED
    changed = sa.update(outbox).where(ours).values(attempts=outbox.c.attempts + 1, **values)
    return bool((await connection.execute(changed)).rowcount)
