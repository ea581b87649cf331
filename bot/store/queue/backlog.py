"""The backlog: images and results that are not finished."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.jobs import State
from bot.domain.outbox import Outgoing
from bot.store.database.database import count_of
from bot.store.rows.outbox import UNSETTLED
from bot.store.tables.outbox import outbox
from bot.store.tables.queue import images


@dataclass(frozen=True, kw_only=True)
class Backlog:
    """Counts of images and undelivered results, and the oldest age of these results, in seconds.

    `paused` images wait in a paused channel or server, and `waiting` ones for a worker.
    """

    waiting: int
    paused: int
    running: int
    undelivered: int
    oldest_seconds: float


async def read_backlog(connection: AsyncConnection, *, now: float) -> Backlog:
    """Count the open work; finished jobs are not read."""
    results = outbox.c.kind == Outgoing.RESULT.value
    open_results = sa.select(sa.func.count(), sa.func.min(outbox.c.created_at)).where(results, UNSETTLED)
    waits = images.c.state == State.WAITING
    undelivered, oldest = (await connection.execute(open_results)).one()
    return Backlog(
        waiting=await count_of(connection, images, waits, ~images.c.paused),
        paused=await count_of(connection, images, waits, images.c.paused),
        running=await count_of(connection, images, images.c.state == State.RUNNING),
        undelivered=undelivered,
        oldest_seconds=0.0 if oldest is None else max(0.0, now - oldest),
    )
