"""Statistics: the backlog, the pictures painted for a person or a server, and their waiting times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.jobs import State, model_and_size
from bot.domain.outbox import Outgoing
from bot.store.database.database import Verbs, count_of
from bot.store.queue.copies import no_copy
from bot.store.rows.jobs import among
from bot.store.rows.outbox import UNSETTLED
from bot.store.tables.outbox import outbox
from bot.store.tables.queue import images, jobs


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


@dataclass(frozen=True, kw_only=True)
class Painted:
    """The work of a period: pictures by model, requests and persons, and mean times in seconds."""

    models: Mapping[str, int] = field(default_factory=dict)
    requests: int = 0
    people: int = 0
    waited: float | None = None
    painted: float | None = None

    @property
    def pictures(self) -> int:
        return sum(self.models.values())


class Statistics(Verbs):
    """The verb of statistics. Deleted rows are not counted."""

    async def painted(
        self, *, since: Sequence[float], user_id: int | None = None, guild_id: int | None = None
    ) -> list[Painted]:
        """Return the finished work of one person or in one server since each time, without copies."""
        whose = jobs.c.guild_id == guild_id if user_id is None else jobs.c.user_id == user_id
        ended = (jobs.c.finished_at >= min(since)) & whose & no_copy()
        pictures = (
            sa.select(images.c.lane, *(_count(begin).label(f"since_{n}") for n, begin in enumerate(since)))
            .join(jobs)
            .where(among(images, State.DONE), ended)
            .group_by(images.c.lane)
        )
        requests = sa.select(
            *(each for number, begin in enumerate(since) for each in _requests(begin, number))
        ).where(ended, among(jobs, State.DONE))
        models: list[Counter[str]] = [Counter() for _ in since]
        async with self._database.read(much=True) as connection:
            for lane, *counts in await connection.execute(pictures):
                for found, count in zip(models, counts, strict=True):
                    found[model_and_size(lane)[0]] += count
            asked = (await connection.execute(requests)).one()._mapping
        return [
            Painted(models=+found, **{name: asked[f"{name}_{number}"] for name in _REQUESTS})
            for number, found in enumerate(models)
        ]


_REQUESTS = ("requests", "people", "waited", "painted")


def _requests(since: float, number: int) -> Iterator[sa.Label[Any]]:
    """Yield the columns of `_REQUESTS` for the jobs that ended since then."""
    recent = jobs.c.finished_at >= since
    yield _count(since).label(f"requests_{number}")
    yield sa.func.count(sa.distinct(sa.case((recent, jobs.c.user_id)))).label(f"people_{number}")
    waited, painted = jobs.c.started_at - jobs.c.created_at, jobs.c.finished_at - jobs.c.started_at
    yield sa.func.avg(sa.case((recent, waited))).label(f"waited_{number}")
    yield sa.func.avg(sa.case((recent, painted))).label(f"painted_{number}")


def _count(since: float) -> sa.ColumnElement[int]:
    """Return the number of rows whose jobs ended since then."""
    return sa.func.count(sa.case((jobs.c.finished_at >= since, 1)))
