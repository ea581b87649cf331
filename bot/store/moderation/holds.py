"""The statements that hold pictures for review, and end their hold.

A picture is held in every job of the server that shows it: in copies too. Each of these jobs says so in its
own message, so each change makes their results due again. Files are named after what is in them, so jobs of
other servers may show the same file: moderators decide for their own server only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.holds import Hold, Outcome, Ruling
from bot.domain.jobs import Showing
from bot.store.rows.charges import recount
from bot.store.rows.jobs import hold_values
from bot.store.rows.transitions import renew_results
from bot.store.tables.queue import images, jobs

SHOWN_AS: Mapping[Outcome, Showing] = {
    Outcome.SHOWN: Showing.SHOW,
    Outcome.SPOILER: Showing.SPOILER,
    Outcome.REJECTED: Showing.WITHHOLD,
    Outcome.EXPIRED: Showing.WITHHOLD,
}
OPEN = (Showing.SHOW, Showing.SPOILER)
HELD = (Showing.HOLD,)
ANYWAY = (*OPEN, *HELD)
NOTHING_DECIDED: Mapping[str, Any] = {"ruling": None, "ruling_reason": ""}


async def hold_pictures(connection: AsyncConnection, job_id: str, hold: Hold, *, now: float) -> list[str]:
    """Hold the shown pictures of a job; return the ids of the changed jobs, empty if no picture was shown."""
    of_jobs, of_images = _held_by(hold)
    return await _change(connection, job_id, of_jobs, of_images, before=OPEN, now=now)


async def hold_again(
    connection: AsyncConnection, job_id: str, hold: Hold, *, rejected: sa.ColumnElement[bool], now: float
) -> list[str]:
    """Hold the shown pictures of a job, and those that are `rejected` and whose files are kept."""
    await lock_sharing(connection, job_id, tuple(Showing))  # in one order: both changes lock parts of these
    shown = await hold_pictures(connection, job_id, hold, now=now)
    values = _held_by(hold)
    return shown + await _change(
        connection, job_id, *values, before=(Showing.WITHHOLD,), only=rejected, now=now
    )


async def rule_on(
    connection: AsyncConnection,
    job_id: str,
    ruling: Ruling,
    *,
    before: Collection[Showing] = HELD,
    only: sa.ColumnElement[bool] | None = None,
    now: float,
) -> list[str]:
    """Apply a ruling to a job's pictures, by default held ones; return the ids of the changed jobs.

    `only` is a condition on the pictures of this job; the same pictures in other jobs change with them.
    """
    values = {"ruling": ruling.outcome.value, "ruling_reason": ruling.reason}
    of_images = {"showing": SHOWN_AS[ruling.outcome], **values}
    return await _change(connection, job_id, values, of_images, before=before, only=only, now=now)


async def show_withheld(connection: AsyncConnection, job_id: str, ruling: Ruling, *, now: float) -> list[str]:
    """Apply a ruling to withheld pictures whose files are kept; return the ids of the changed jobs."""
    return await rule_on(connection, job_id, ruling, before=(Showing.WITHHOLD,), now=now)


async def uphold(connection: AsyncConnection, job_id: str, reason: str) -> None:
    """Reject the withheld pictures of a locked job once more; without a reason the earlier one stays."""
    withheld = (images.c.job_id == job_id) & (images.c.showing == Showing.WITHHOLD)
    values = {"ruling": Outcome.REJECTED.value, **({"ruling_reason": reason} if reason else {})}
    kept = sa.update(images).where(withheld, images.c.artifact.is_not(None))
    await connection.execute(kept.values(values))


def _held_by(hold: Hold) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values of jobs and of images that wait for a decision."""
    return {**hold_values(hold), **NOTHING_DECIDED}, {"showing": Showing.HOLD, **NOTHING_DECIDED}


async def _change(
    connection: AsyncConnection,
    job_id: str,
    of_jobs: Mapping[str, str | None],
    of_images: Mapping[str, Any],
    *,
    before: Collection[Showing],
    only: sa.ColumnElement[bool] | None = None,
    now: float,
) -> list[str]:
    """Change how each job that has the pictures of a job shows them, and make these results due again."""
    locked, same = await lock_sharing(connection, job_id, before, only)
    changed = sa.update(images).where(images.c.job_id.in_(locked), same).values(dict(of_images))
    changed_ids = set(await connection.scalars(changed.returning(images.c.job_id)))
    job_ids = [each for each in locked if each in changed_ids]
    await connection.execute(sa.update(jobs).where(jobs.c.id.in_(job_ids)).values(dict(of_jobs)))
    for each in job_ids:
        await recount(connection, each)  # what is withheld counts against no quota
    await renew_results(connection, job_ids, now=now)
    return job_ids


async def lock_sharing(
    connection: AsyncConnection,
    job_id: str,
    before: Collection[Showing],
    only: sa.ColumnElement[bool] | None = None,
) -> tuple[list[str], sa.ColumnElement[bool]]:
    """Lock the job and the jobs of its server that share its pictures; return them, and which pictures.

    The shared pictures are read again under the locks: a report or a copy may have changed them before.
    """
    guild_id = sa.select(jobs.c.guild_id).where(jobs.c.id == job_id).scalar_subquery()
    theirs = images.c.artifact.is_not(None) & images.c.showing.in_(before)
    chosen = theirs if only is None else theirs & only
    locked: list[str] = []
    while True:
        mine = sa.select(images.c.artifact).where(images.c.job_id == job_id, chosen)
        same = images.c.artifact.in_(list(await connection.scalars(mine))) & images.c.showing.in_(before)
        own: sa.Select[Any] = sa.select(sa.literal(job_id))
        sharing = jobs.c.id.in_(own.union(sa.select(images.c.job_id).where(same)))
        here = (jobs.c.guild_id == guild_id) | (jobs.c.id == job_id)
        there = sa.select(jobs.c.id).where(sharing, here, jobs.c.deleted_at.is_(None))
        found = list(await connection.scalars(there.order_by(jobs.c.id).with_for_update()))
        if found == locked:
            return locked, same
        locked = found
