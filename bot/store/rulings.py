"""The ruling on a picture: its own, or a later one that only its job has.

During an upgrade, processes of the earlier version run beside this one. They write a ruling only to the job,
even `declined`, and the end of an appeal only to its review. Two cases cannot be told apart:
- If such a process withholds a picture and then shows another picture of its job, the first ruling is lost.
  The withheld picture counts as expired.
- If it accepts an appeal and then withholds a copy of the picture, the copy's earlier ruling counts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.holds import Appeal, Outcome, Ruling
from bot.domain.jobs import Showing
from bot.store.rows.reviews import Kind
from bot.store.tables.queue import images, jobs
from bot.store.tables.reviews import reviews

REJECTED, DECLINED = Outcome.REJECTED.value, Outcome.DECLINED.value
SHOWS = tuple(outcome.value for outcome in Outcome if outcome.shows)
ENDS: Mapping[Outcome, Appeal] = MappingProxyType(
    {
        Outcome.SHOWN: Appeal.ACCEPTED,
        Outcome.SPOILER: Appeal.ACCEPTED,
        Outcome.DECLINED: Appeal.DECLINED,
        Outcome.EXPIRED: Appeal.EXPIRED,
    }
)
WITHHELD_AS: Mapping[str, Outcome] = MappingProxyType(
    {
        Outcome.REJECTED.value: Outcome.REJECTED,
        Outcome.DECLINED.value: Outcome.REJECTED,
        Outcome.EXPIRED.value: Outcome.EXPIRED,
        **dict.fromkeys(SHOWS, Outcome.EXPIRED),  # it is about another picture
    }
)
"""The ruling on a withheld picture, by the ruling that its job alone has."""

# `later_ruling` is the same condition for two rows. A withheld picture without a file was never held, unless
# it was deleted. For a deleted picture that the checker withheld, no hash is kept.
_KEPT = images.c.artifact.is_not(None) | jobs.c.deleted_at.is_not(None)
_DECLINED = jobs.c.ruling == DECLINED
# An older process has accepted the appeal, which showed every withheld picture; `keep_older` notes that.
_ACCEPTED = (jobs.c.appeal.is_(None) | (jobs.c.appeal == Appeal.OPEN.value)) & sa.exists().where(
    reviews.c.job_id == jobs.c.id, reviews.c.kind == Kind.APPEAL.value, reviews.c.outcome.in_(SHOWS)
).correlate(jobs)
_STALE = images.c.ruling.is_(None) | images.c.ruling.in_(SHOWS) | _DECLINED | _ACCEPTED
BY_OLDER = (images.c.showing == Showing.WITHHOLD) & _KEPT & jobs.c.ruling.is_not(None) & _STALE

IS_REJECTED = (images.c.showing == Showing.WITHHOLD) & sa.or_(
    BY_OLDER & jobs.c.ruling.in_((REJECTED, DECLINED)), ~BY_OLDER & (images.c.ruling == REJECTED)
)
"""The condition that moderators have rejected a picture, for `images` joined with `jobs`."""


def later_ruling(image: Any, job: Any, ended: Appeal | None) -> Ruling | None:
    """Return the ruling on a withheld picture that its job alone has, from their rows; None without one.

    `ended` is how the job's appeal has ended by its review alone.
    """
    kept = image.artifact is not None or job.deleted_at is not None
    declined = job.ruling == DECLINED
    stale = image.ruling is None or image.ruling in SHOWS or declined or ended is Appeal.ACCEPTED
    if not (kept and stale and job.ruling is not None):
        return None
    outcome = WITHHELD_AS[job.ruling]
    reason = job.ruling_reason or (image.ruling_reason if declined else "")
    return Ruling(outcome=outcome, reason="" if job.ruling in SHOWS else reason)


async def keep_older(connection: AsyncConnection, job_ids: Collection[str]) -> None:
    """Store the rulings that only these locked jobs have, and the ends of appeals that only reviews have.

    Call it before the rulings of the jobs are overwritten, or the reviews deleted.
    """
    told = (jobs.c.ruling.in_(SHOWS), ""), (jobs.c.ruling_reason != "", jobs.c.ruling_reason)
    reason = sa.case(*told, (_DECLINED, images.c.ruling_reason), else_="")
    values = {"ruling": sa.case(dict(WITHHELD_AS), value=jobs.c.ruling), "ruling_reason": reason}
    of_jobs = (images.c.job_id == jobs.c.id) & jobs.c.id.in_(job_ids)
    kept = sa.update(images).where(of_jobs, BY_OLDER).values(values)
    await connection.execute(kept)
    for job_id, appeal in (await ended_appeals(connection, job_ids)).items():
        ended = sa.update(jobs).where(jobs.c.id == job_id).values(appeal=appeal.value)
        await connection.execute(ended)


async def ended_appeals(connection: AsyncConnection, job_ids: Collection[str]) -> dict[str, Appeal]:
    """Return how appeals of these jobs have ended, as their reviews say; open appeals are left out."""
    ended = (reviews.c.kind == Kind.APPEAL.value) & reviews.c.outcome.in_(list(ENDS))
    look = sa.select(reviews.c.job_id, reviews.c.outcome).where(reviews.c.job_id.in_(job_ids), ended)
    return {row.job_id: ENDS[Outcome(row.outcome)] for row in await connection.execute(look)}
