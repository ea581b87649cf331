"""Messages on their way to Discord: how many of each kind, and which have waited longest."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from bot.domain.outbox import Outgoing
from bot.store.database.database import Verbs, of_row
from bot.store.rows.outbox import UNSETTLED
from bot.store.tables.outbox import outbox


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """The messages of one kind that are not sent: due now, and due later after `attempts` that failed."""

    kind: str
    due: int
    later: int
    oldest: float | None


@dataclass(frozen=True, kw_only=True)
class Message:
    """A message that is not sent; `job_id` is None unless it shows a result."""

    id: int
    kind: str
    job_id: str | None
    front: str | None
    created_at: float
    attempts: int
    next_try_at: float


class Messages(Verbs):
    """The verbs of messages, of every kind."""

    async def waiting(self) -> list[Waiting]:
        """Return the number of messages of each kind that are not sent."""
        due = sa.func.count().filter(outbox.c.next_try_at <= self._clock())
        columns = (outbox.c.kind, due.label("due"), sa.func.count().label("all"))
        oldest = sa.func.min(outbox.c.created_at).label("oldest")
        kinds = outbox.c.kind.in_([kind.value for kind in Outgoing])
        look = sa.select(*columns, oldest).where(kinds, UNSETTLED).group_by(outbox.c.kind)
        rows = await self._rows(look.order_by(outbox.c.kind))
        return [of_row(Waiting, row, later=row.all - row.due) for row in rows]

    async def unsent(self, kind: Outgoing, *, limit: int) -> list[Message]:
        """Return messages of one kind that are not sent, the longest due first."""
        look = sa.select(outbox).where(outbox.c.kind == kind.value, UNSETTLED)
        rows = await self._rows(look.order_by(outbox.c.next_try_at).limit(limit))
        return [of_row(Message, row) for row in rows]

    async def send_now(self, message_id: int) -> bool:
        """Make a message due now; False for one that is sent or deleted."""
        mine = sa.update(outbox).where(outbox.c.id == message_id, UNSETTLED)
        async with self._changing() as (connection, changes):
            changed = (await connection.execute(mine.values(next_try_at=self._clock()))).rowcount
            changes.results = bool(changed)
        return bool(changed)
