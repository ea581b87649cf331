"""The only statements that change a state; what is final stays so by their WHERE."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.errors import NotYours, UnknownJob
from bot.jobs import ALLOWED, State, state_of_job
from bot.store import fairness
from bot.store.database import insert
from bot.store.tables import deliveries, images, jobs, last_tags

ACTIVE = (State.WAITING, State.RUNNING)
RESULT = "result"  # the kind of delivery that brings a job's pictures


def move(to: State, condition: sa.ColumnElement[bool], **values: Any) -> sa.Update:
    """The statement that brings the images of `condition` to `to`, where that is allowed at all."""
    # Said as what it must not be: then no database looks for the few images among all that wait.
    never = [state for state, following in ALLOWED.items() if to not in following]
    return sa.update(images).where(condition, images.c.state.not_in(never)).values(state=to, **values)


async def lock_job(connection: AsyncConnection, job_id: str) -> None:
    """Make other transactions on this job wait, so that of its last images exactly one ends the job.

    Comes before all that is changed of a job, its images and its delivery: with one order for everybody
    no two transactions wait for each other. Claims, which begin with images, wait for no job.
    """
    await connection.execute(sa.select(jobs.c.id).where(jobs.c.id == job_id).with_for_update())


async def lock_jobs(connection: AsyncConnection, which: sa.ColumnElement[bool]) -> list[str]:
    """`lock_job` for each job that has an image of `which`, in one order for everybody; their ids."""
    job_ids = sa.select(images.c.job_id).where(which)
    statement = sa.select(jobs.c.id).where(jobs.c.id.in_(job_ids)).order_by(jobs.c.id)
    return list(await connection.scalars(statement.with_for_update()))


async def lock_owned_job(connection: AsyncConnection, job_id: str, user_id: int | None) -> None:
    """`lock_job` for somebody who asks: raises UnknownJob, or NotYours unless `user_id` is None."""
    await lock_job(connection, job_id)
    owner = await connection.scalar(sa.select(jobs.c.user_id).where(jobs.c.id == job_id))
    if owner is None:
        raise UnknownJob(job=job_id)
    if user_id not in (None, owner):
        raise NotYours(job=job_id)


async def settle(connection: AsyncConnection, job_id: str, *, now: float) -> bool:
    """Derive the job's state from its images'; once it is final, its result is to be delivered.

    Returns whether the job became final now.
    """
    states = await connection.scalars(sa.select(images.c.state).where(images.c.job_id == job_id))
    state = state_of_job(list(states))
    values: dict[str, Any] = {"state": state}
    if state is State.RUNNING:
        values["started_at"] = sa.func.coalesce(jobs.c.started_at, now)
    if state.final:
        values["finished_at"] = now
    changed = await connection.execute(
        sa.update(jobs).where(jobs.c.id == job_id, jobs.c.state.in_(ACTIVE)).values(values)
    )
    if not (state.final and changed.rowcount):
        return False
    await connection.execute(
        insert(connection, deliveries)
        .values(job_id=job_id, kind=RESULT, created_at=now, attempts=0, next_try_at=now)
        .on_conflict_do_nothing()
    )
    return True


async def cancel_images(connection: AsyncConnection, job_id: str, *, now: float) -> bool:
    """Cancel what is not final of a job whose row is locked; what never ran costs its user nothing.

    Returns whether the job became final now.
    """
    mine = images.c.job_id == job_id
    rows = await connection.execute(
        sa.select(images.c.state, images.c.share).where(mine).order_by(images.c.id).with_for_update()
    )
    unused = [row.share for row in rows if row.state is State.WAITING]
    await connection.execute(move(State.CANCELLED, mine))
    if unused:
        user_id = sa.select(jobs.c.user_id).where(jobs.c.id == job_id).scalar_subquery()
        await refund(connection, user_id, unused)
    return await settle(connection, job_id, now=now)


async def refund(
    connection: AsyncConnection, user_id: int | sa.ScalarSelect[int], shares: Iterable[float]
) -> None:
    """Give a user back what images that were never painted moved their last tag by."""
    tag = last_tags.c.tag - fairness.refund(shares)
    await connection.execute(sa.update(last_tags).where(last_tags.c.user_id == user_id).values(tag=tag))
