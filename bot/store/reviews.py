"""Reviews: pictures that moderators look at before anybody else does, and what they decide."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import sqlalchemy as sa

from bot.errors import UnknownJob, UserMistake
from bot.holds import Hold, Outcome, Ruling
from bot.jobs import Job
from bot.store.auditing import Act, By, note
from bot.store.database import Verbs
from bot.store.holding import hold_pictures, rule_on
from bot.store.rows import load_job
from bot.store.tables import jobs

ACTS: Mapping[Outcome, Act] = MappingProxyType(
    {
        Outcome.SHOWN: Act.APPROVE,
        Outcome.SPOILER: Act.COVER,
        Outcome.REJECTED: Act.REJECT,
        Outcome.EXPIRED: Act.EXPIRE,
    }
)
"""What the log calls the ends of a hold."""


class Reviews(Verbs):
    """The verbs of reviews. A decision, its row in the log and the new delivery are one transaction."""

    async def hold(self, job_id: str, hold: Hold, by: By) -> Job:
        """Hide the pictures of a finished job until moderators decide; its message says so.

        Raises UnknownJob for a job that is gone or deleted, UserMistake `no_picture` where nothing is shown.
        """
        now = self._clock()
        async with self._changing() as (connection, changes):
            held = await hold_pictures(connection, job_id, hold, now=now)
            job = await load_job(connection, job_id)
            if job.deleted_at is not None:
                raise UnknownJob(job=job_id)
            if not held:
                raise UserMistake("no_picture")
            after = {"job": job_id, "cause": hold.cause.value}
            await note(connection, Act.HIDE, by, at=now, subject_id=job.origin.user_id, after=after)
            changes.results = True
        return job

    async def decide(self, job_id: str, outcome: Outcome, by: By) -> Job:
        """End the hold of a job's pictures; `by` has the reason, which their person is told of a rejection.

        The first decision stands. Raises UnknownJob for a job that is gone or deleted, UserMistake
        `review_over` where nothing is held any more.
        """
        now = self._clock()
        reason = by.reason if outcome is Outcome.REJECTED else ""
        async with self._changing() as (connection, changes):
            ended = await rule_on(connection, job_id, Ruling(outcome=outcome, reason=reason), now=now)
            if not ended:
                there = sa.select(jobs.c.id).where(jobs.c.id == job_id, jobs.c.deleted_at.is_(None))
                if await connection.scalar(there) is None:
                    raise UnknownJob(job=job_id)
                raise UserMistake("review_over")
            job = await load_job(connection, job_id)
            after = {"job": job_id}
            await note(connection, ACTS[outcome], by, at=now, subject_id=job.origin.user_id, after=after)
            changes.results = True
        return job
