"""The verb that says how much there is to do."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from bot.jobs import State
from bot.store.tables import deliveries, images
from bot.store.verbs import Verbs


@dataclass(frozen=True, kw_only=True)
class Backlog:
    """Images that wait and run, results not yet delivered, and the age in seconds of the oldest of these."""

    waiting: int
    running: int
    undelivered: int
    oldest_seconds: float


class BacklogVerbs(Verbs):
    """What operators ask."""

    async def backlog(self) -> Backlog:
        """How much is to be done; looks at what is under way only, however long the history."""
        open_results = sa.select(sa.func.count(), sa.func.min(deliveries.c.created_at))
        async with self._database.read() as connection:
            waiting = await connection.scalar(_count_of(State.WAITING))
            running = await connection.scalar(_count_of(State.RUNNING))
            found = await connection.execute(open_results.where(deliveries.c.outcome.is_(None)))
            undelivered, oldest = found.one()
        age = 0.0 if oldest is None else max(0.0, self._clock() - oldest)
        return Backlog(
            waiting=waiting or 0, running=running or 0, undelivered=undelivered, oldest_seconds=age
        )


def _count_of(state: State) -> sa.Select[int]:
    return sa.select(sa.func.count()).select_from(images).where(images.c.state == state)
