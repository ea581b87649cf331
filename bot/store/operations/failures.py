"""Failed images, by cause, and their second try."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from bot.domain.jobs import State, model_and_size
from bot.store.database.database import Verbs
from bot.store.rows.audit import Act, By, note
from bot.store.rows.pauses import retag
from bot.store.rows.transitions import lock_owned_job, reopen
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
    """The verbs of failed images."""

    async def by_cause(self, *, since: float) -> list[Failed]:
        """Return the causes among the last LOOKED_AT jobs that ended since then, the most frequent first."""
        rows = await self._rows(_failed(since), much=True)
        causes = Counter(row.failure or "" for row in rows)
        found = []
        for cause, count in causes.most_common():
            mine = [row for row in rows if (row.failure or "") == cause]
            found.append(
                Failed(
                    cause=cause,
                    images=count,
                    models=Counter(model_and_size(row.lane)[0] for row in mine),
                    last_at=mine[0].finished_at,
                    job_ids=tuple(dict.fromkeys(row.id for row in mine))[:EXAMPLES],
                )
            )
        return found

    async def jobs_of(self, cause: str, *, since: float) -> list[str]:
        """Return the ids of the jobs that `by_cause` has counted for this cause."""
        rows = await self._rows(_failed(since), much=True)
        return list(dict.fromkeys(row.id for row in rows if (row.failure or "") == cause))

    async def retry(self, job_id: str, actor_id: int) -> bool:
        """Let the failed images of a job wait again, as if they were requested now; the log tells it.

        False for a job that is active or deleted, has no failed image,
        belongs to a group session, or whose result is being sent. Raises UnknownJob.
        """
        now = self._clock()
        async with self._changing() as (connection, changes):
            owner = await lock_owned_job(connection, job_id, None)
            if not await reopen(connection, job_id):
                return False
            await retag(connection, [job_id])
            changes.work = True
            guild_id = await connection.scalar(sa.select(jobs.c.guild_id).where(jobs.c.id == job_id))
            by = By(actor_id=actor_id, guild_id=guild_id or 0)
            await note(connection, Act.RETRY, by, at=now, subject_id=owner, after={"job": job_id})
            return True


def _failed(since: float) -> sa.Select[Any]:
    ended = sa.select(jobs.c.id, jobs.c.finished_at).where(jobs.c.finished_at >= since)
    last = ended.order_by(jobs.c.finished_at.desc()).limit(LOOKED_AT).subquery()
    look = sa.select(images.c.failure, images.c.lane, last.c.id, last.c.finished_at)
    failed = look.join(last, last.c.id == images.c.job_id).where(images.c.state == State.FAILED)
    return failed.order_by(last.c.finished_at.desc(), images.c.id)
