"""The ruling on a picture: its own, or a later one that only its job has.

During an upgrade, processes of the earlier version run beside this one. They write a ruling only to the job,
even `declined`, and the end of an appeal only to its review. One case is misread: if such a process shows a
picture that this version has rejected, and then decides again, the rejection counts as the last ruling.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.holds import Appeal, Outcome, Ruling
from bot.jobs import Showing
from bot.store.review_rows import Kind
from bot.store.review_tables import reviews
from bot.store.tables import images, jobs

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

# `later_ruling` is the same condition for two rows. A withheld picture without a file was never held, unless
# it was deleted. For a deleted picture that the checker withheld, no hash is kept.
_KEPT = images.c.artifact.is_not(None) | jobs.c.deleted_at.is_not(None)
_DECLINED = jobs.c.ruling == DECLINED
_STALE = images.c.ruling.is_(None) | images.c.ruling.in_(SHOWS) | _DECLINED
BY_OLDER = (images.c.showing == Showing.WITHHOLD) & _KEPT & jobs.c.ruling.is_not(None) & _STALE

IS_REJECTED = (images.c.showing == Showing.WITHHOLD) & sa.or_(
    BY_OLDER & jobs.c.ruling.in_((REJECTED, DECLINED)), ~BY_OLDER & (images.c.ruling == REJECTED)
)
"""The condition that moderators have rejected a picture, for `images` joined with `jobs`."""


def later_ruling(image: Any, job: Any) -> Ruling | None:
    """Return the ruling on a withheld picture that its job alone has, from their rows; None without one."""
    kept = image.artifact is not None or job.deleted_at is not None
    stale = image.ruling is None or image.ruling in SHOWS or job.ruling == DECLINED
    if not (kept and stale and job.ruling is not None):
        return None
    declined = job.ruling == DECLINED
    reason = job.ruling_reason or (image.ruling_reason if declined else "")
    return Ruling(outcome=Outcome.REJECTED if declined else Outcome(job.ruling), reason=reason)


async def keep_older(connection: AsyncConnection, job_ids: Collection[str]) -> None:
    """Give pictures the rulings that only their locked jobs have, before these are overwritten."""
    said = (jobs.c.ruling_reason != "", jobs.c.ruling_reason)
    reason = sa.case(said, (_DECLINED, images.c.ruling_reason), else_="")
    values = {"ruling": sa.case((_DECLINED, REJECTED), else_=jobs.c.ruling), "ruling_reason": reason}
    of_jobs = (images.c.job_id == jobs.c.id) & jobs.c.id.in_(job_ids)
    kept = sa.update(images).where(of_jobs, BY_OLDER).values(values)
    await connection.execute(kept)


async def ended_appeals(connection: AsyncConnection, job_ids: Collection[str]) -> dict[str, Appeal]:
    """Return how appeals of these jobs have ended, as their reviews say; open appeals are left out."""
    ended = (reviews.c.kind == Kind.APPEAL.value) & reviews.c.outcome.in_(list(ENDS))
    look = sa.select(reviews.c.job_id, reviews.c.outcome).where(reviews.c.job_id.in_(job_ids), ended)
    return {row.job_id: ENDS[Outcome(row.outcome)] for row in await connection.execute(look)}
