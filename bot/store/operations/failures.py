"""Failed images, by cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from bot.domain.jobs import State
from bot.store.database.database import Verbs
from bot.store.tables.queue import images, jobs

LOOKED_AT = 2000
EXAMPLES = 5


@dataclass(frozen=True, kw_only=True)
class Failed:
    """The images of one cause: how many, of which models, when the last one, and its latest jobs."""

    cause: str
    images: int
    models: Mapping[str, int]
    last_at: float
    job_ids: tuple[str, ...]


class Failures(Verbs):
    """The verb of failed images."""

    async def by_cause(self, *, since: float) -> list[Failed]:
        """Return the causes among the last LOOKED_AT jobs that ended since then, the most frequent first."""
        ended = sa.select(jobs.c.id, jobs.c.finished_at).where(jobs.c.finished_at >= since)
        last = ended.order_by(jobs.c.finished_at.desc()).limit(LOOKED_AT).subquery()
        look = sa.select(images.c.failure, images.c.lane, last.c.id, last.c.finished_at)
        failed = look.join(last, last.c.id == images.c.job_id).where(images.c.state == State.FAILED)
        rows = await self._rows(failed.order_by(last.c.finished_at.desc(), images.c.id), much=True)
        causes = Counter(row.failure or "" for row in rows)
        found = []
        for cause, count in causes.most_common():
            mine = [row for row in rows if (row.failure or "") == cause]
            found.append(
                Failed(
                    cause=cause,
                    images=count,
                    models=Counter(row.lane.rsplit(":", 2)[0] for row in mine),
                    last_at=mine[0].finished_at,
                    job_ids=tuple(dict.fromkeys(row.id for row in mine))[:EXAMPLES],
                )
            )
        return found
