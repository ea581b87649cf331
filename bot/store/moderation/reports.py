"""Reports: members report a picture. Enough reports hide it until moderators decide."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.errors import UnknownJob, UserMistake
from bot.domain.holds import Cause, Hold
from bot.domain.jobs import Job, lacking
from bot.domain.outbox import Outgoing
from bot.domain.time_units import DAY_SECONDS
from bot.store.database.database import Verbs, add_new, count_of
from bot.store.moderation.holds import OPEN, hold_pictures, lock_sharing
from bot.store.rows.audit import OPERATOR, Act, By, note
from bot.store.rows.jobs import load_job
from bot.store.rows.outbox import renew
from bot.store.rows.reviews import Kind, about_pictures, open_review, settings_of, waits
from bot.store.rows.sessions import wait_for_turn
from bot.store.tables.reviews import reports, reviews

REPORTS_A_DAY = 5  # of one person


class Reports(Verbs):
    """The verbs of reports."""

    async def add(self, job_id: str, user_id: int, *, guild_id: int, reason: str) -> bool:
        """Report the pictures of a job; return whether they are hidden now.

        Raises UnknownJob for a job of another server or a deleted one, and UserMistake: `no_picture` or
        `picture_held` where nothing is shown, `report_own`, `report_twice`, `reports_full`.
        """
        now = self._clock()
        async with self._changing() as (connection, changes):
            # In one order: a hidden picture is hidden in all of these.
            await lock_sharing(connection, job_id, OPEN)
            await wait_for_turn(connection, user_id)  # of two reports at once, one counts the other
            job = await load_job(connection, job_id)
            _check(job, user_id, guild_id)
            await _admit(connection, user_id, now=now)
            new = {"job_id": job_id, "user_id": user_id, "guild_id": guild_id, "at": now, "reason": reason}
            if not await add_new(connection, reports, new):
                raise UserMistake("report_twice")
            await _tell(connection, job, guild_id, now=now)
            changes.results = True
            count = await _count(connection, job_id)
            if count < (await settings_of(connection, guild_id)).reports:
                return False
            hidden = await hold_pictures(connection, job_id, Hold(cause=Cause.REPORTS), now=now)
            if hidden:
                by = By(actor_id=OPERATOR, guild_id=guild_id)
                after = {"job": job_id, "reports": count}
                await note(connection, Act.HIDE, by, at=now, subject_id=job.origin.user_id, after=after)
            return bool(hidden)


def _check(job: Job, user_id: int, guild_id: int) -> None:
    if job.deleted_at is not None or job.origin.guild_id != guild_id:
        raise UnknownJob(job=job.id)
    if job.origin.user_id == user_id:
        raise UserMistake("report_own")
    if not any(image.artifact for image in job.images):
        raise UserMistake(lacking(job.images))


async def _admit(connection: AsyncConnection, user_id: int, *, now: float) -> None:
    lately = (reports.c.user_id == user_id) & (reports.c.at > now - DAY_SECONDS)
    if await count_of(connection, reports, lately) >= REPORTS_A_DAY:
        raise UserMistake("reports_full", limit=REPORTS_A_DAY)


async def _tell(connection: AsyncConnection, job: Job, guild_id: int, *, now: float) -> None:
    """Open a review, or make the message of the open one due again."""
    mine = (reviews.c.job_id == job.id) & about_pictures() & waits()
    found = list(await connection.scalars(sa.select(reviews.c.id).where(mine).with_for_update()))
    await renew(connection, Outgoing.REVIEW, found, now=now)
    if not found:
        whose = {"guild_id": guild_id, "user_id": job.origin.user_id}
        await open_review(connection, Kind.REPORT, **whose, now=now, job_id=job.id)


async def _count(connection: AsyncConnection, job_id: str) -> int:
    """Count the reports since the moderators' last decision on the job."""
    decided = sa.select(sa.func.max(reviews.c.decided_at)).where(reviews.c.job_id == job_id)
    since = sa.func.coalesce(decided.scalar_subquery(), 0.0)
    return await count_of(connection, reports, reports.c.job_id == job_id, reports.c.at > since)
