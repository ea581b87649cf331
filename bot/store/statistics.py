"""Statistics: the pictures painted for a person or a server, and their waiting times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa

from bot.jobs import State
from bot.store.copies import no_copy
from bot.store.database import Verbs
from bot.store.tables import images, jobs


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
        self, *, since: float, user_id: int | None = None, guild_id: int | None = None
    ) -> Painted:
        """Return the finished work since `since` of one person or in one server, without copies."""
        whose = jobs.c.guild_id == guild_id if user_id is None else jobs.c.user_id == user_id
        ended = (jobs.c.finished_at >= since) & whose & no_copy()
        done = (images.c.state == State.DONE) & ended
        pictures = sa.select(images.c.lane, sa.func.count().label("pictures")).join(jobs).where(done)
        requests = sa.select(
            sa.func.count().label("requests"),
            sa.func.count(sa.distinct(jobs.c.user_id)).label("people"),
            sa.func.avg(jobs.c.started_at - jobs.c.created_at).label("waited"),
            sa.func.avg(jobs.c.finished_at - jobs.c.started_at).label("painted"),
        ).where(ended, jobs.c.state == State.DONE)
        models: Counter[str] = Counter()
        async with self._database.read() as connection:
            for row in await connection.execute(pictures.group_by(images.c.lane)):
                models[row.lane.rsplit(":", 2)[0]] += row.pictures
            asked = (await connection.execute(requests)).one()
        return Painted(
            models=models,
            requests=asked.requests,
            people=asked.people,
            waited=asked.waited,
            painted=asked.painted,
        )
