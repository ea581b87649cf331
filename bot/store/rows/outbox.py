"""The rows of the outbox: which messages are due, who sends them, and how they end.

A message is due until it has an outcome. Each claim raises its fencing token: an attempt with an earlier
token changes nothing. A front may claim its own messages again, after a restart for instance.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, TypeVar

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.outbox import Due, Outgoing
from bot.store.database.database import Verbs, add_new
from bot.store.rows.jobs import first_readable
from bot.store.tables.outbox import outbox

FURTHEST_RETRY = 900.0  # seconds; no pause between two attempts is longer
SUBJECTS: Mapping[Outgoing, sa.Column[Any]] = {
    Outgoing.RESULT: outbox.c.job_id,
    Outgoing.REVIEW: outbox.c.review_id,
    Outgoing.POST: outbox.c.post_id,
}
UNSETTLED = outbox.c.outcome.is_(None)
"""The condition for messages that are on their way."""

D = TypeVar("D", bound=Due)
Shown = Mapping[int, Mapping[str, Any]]
"""What messages show, by their rows: the fields that a kind of `Due` adds."""


class OutboxVerbs(Verbs, Generic[D]):
    """The verbs that all kinds of messages share."""

    kind: ClassVar[Outgoing]
    due: type[D]
    locks: ClassVar[Sequence[sa.Table]] = (outbox,)
    """The tables whose rows a claim locks."""

    async def claim(self, front: str, *, limit: int, held: Collection[int] = ()) -> list[D]:
        """Claim messages that are due now and that this front may send, the longest due first.

        Messages that this version cannot read are passed over: they wait for a front that can. A front may
        claim its own messages again. Pass the ids that it is sending now as `held`.
        """
        await self._shared.tell_time()
        columns = outbox.c.id, SUBJECTS[self.kind], outbox.c.attempts, outbox.c.fencing_token
        due = sa.select(*columns).where(outbox.c.kind == self.kind.value, UNSETTLED, is_over(self._clock()))
        ordered = due.where(outbox.c.id.not_in(held)).order_by(outbox.c.next_try_at, outbox.c.id)
        look = self._of(front, ordered)
        # polled often, and a message is rarely due
        if await self._row(look.limit(1)) is None:
            return []
        async with self._database.write() as connection:
            locked = look.with_for_update(skip_locked=True, of=self.locks)
            found = await self._readable(connection, locked, limit=limit)
            mine = sa.update(outbox).where(outbox.c.id.in_([each.id for each in found]))
            raised = mine.values(fencing_token=outbox.c.fencing_token + 1, front=front)
            rows = await connection.execute(raised.returning(outbox.c.id, outbox.c.fencing_token))
            tokens = {row.id: row.fencing_token for row in rows}
            claimed = [replace(each, fencing_token=tokens[each.id]) for each in found]
            return await self._taken(connection, front, claimed)

    async def retry(self, due: Due, *, at: float) -> None:
        """Make a message due again at `at`, in seconds since the epoch, after a failed attempt.

        Nothing changes after a later claim of the message.
        """
        async with self._database.write() as connection:
            await ended(connection, due, next_try_at=at, front=None)

    async def _readable(self, connection: AsyncConnection, look: sa.Select[Any], *, limit: int) -> list[D]:
        """Return the first `limit` messages of `look` that this version can read."""

        async def read(rows: Sequence[Any]) -> list[D]:
            shown = await self._load(connection, rows)
            return [
                self.due(id=row.id, attempts=row.attempts, fencing_token=row.fencing_token, **shown[row.id])
                for row in rows
                if row.id in shown
            ]

        return await first_readable(connection, look, read, limit=limit)

    def _of(self, front: str, look: sa.Select[Any]) -> sa.Select[Any]:
        """Return those messages of a select that this front may send."""
        raise NotImplementedError

    async def _load(self, connection: AsyncConnection, rows: Sequence[Any]) -> Shown:
        """Return what rows of the outbox show, without what this version cannot read."""
        raise NotImplementedError

    async def _taken(self, connection: AsyncConnection, front: str, claimed: list[D]) -> list[D]:  # noqa: ARG002
        """Do what else a claim needs, and return the messages."""
        return claimed


def is_over(now: float) -> sa.ColumnElement[bool]:
    """Return the condition that a message waits no longer for its next attempt.

    A retry time beyond the longest pause means that the clock was set back: the row is due, as is a row that
    was not tried yet.
    """
    at = outbox.c.next_try_at
    return (at <= now) | (at > now + FURTHEST_RETRY) | (outbox.c.attempts == 0)


async def add(connection: AsyncConnection, kind: Outgoing, subject: str | int, *, now: float) -> bool:
    """Add a message that is due at once; False where there is one of this subject."""
    row = {"kind": kind.value, SUBJECTS[kind].name: subject, "created_at": now}
    return bool(await add_new(connection, outbox, row | {"attempts": 0, "next_try_at": now}))


async def renew(
    connection: AsyncConnection, kind: Outgoing, subjects: Collection[Any] | sa.Select[Any], *, now: float
) -> None:
    """Make the messages of these subjects due again, because they must change.

    An attempt under way can no longer settle them. Any front may send them.
    """
    due = {"outcome": None, "settled_at": None, "attempts": 0, "next_try_at": now, "created_at": now}
    theirs = sa.update(outbox).where(SUBJECTS[kind].in_(subjects))
    await connection.execute(theirs.values(**due, fencing_token=outbox.c.fencing_token + 1, front=None))


async def ended(connection: AsyncConnection, due: Due, **values: Any) -> bool:
    """End an attempt with these values; False, and no change, after a later claim or once it is settled."""
    ours = (outbox.c.id == due.id) & (outbox.c.fencing_token == due.fencing_token) & UNSETTLED
    changed = sa.update(outbox).where(ours).values(attempts=outbox.c.attempts + 1, **values)
    return bool((await connection.execute(changed)).rowcount)
