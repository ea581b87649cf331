"""The statements that change a state; their WHERE keeps final states final."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.errors import NotYours, UnknownJob
from bot.domain.holds import Cause
from bot.domain.jobs import ALLOWED, Showing, State, state_of_job
from bot.domain.outbox import Outgoing
from bot.store.rows import fair_order
from bot.store.rows.charges import recount
from bot.store.rows.outbox import UNSETTLED, add, renew
from bot.store.rows.previews import drop_previews
from bot.store.rows.reviews import open_for_held
from bot.store.rows.sessions import refund_in_session
from bot.store.tables.outbox import outbox
from bot.store.tables.queue import images, jobs, last_tags
from bot.store.tables.sessions import session_jobs

ACTIVE = (State.WAITING, State.RUNNING)


def move(to: State, condition: sa.ColumnElement[bool], **values: Any) -> sa.Update:
    """Return the statement that moves the images of `condition` to `to`, from states that allow it."""
    # Excluding the other states keeps databases from searching the index of states first.
    never = [state for state, following in ALLOWED.items() if to not in following]
    return sa.update(images).where(condition, images.c.state.not_in(never)).values(state=to, **values)


async def lock_job(connection: AsyncConnection, job_id: str) -> None:
    """Lock a job's row, so that exactly one of its last images ends the job.

    The lock comes before every change of the job, its images and its delivery: one lock order prevents
    deadlocks. Claims begin with images and wait for no job.
    """
    await connection.execute(sa.select(jobs.c.id).where(jobs.c.id == job_id).with_for_update())


async def lock_jobs(connection: AsyncConnection, which: sa.ColumnElement[bool]) -> list[str]:
    """Lock each job that has an image of `which`, in the order of ids, and return their ids."""
    job_ids = sa.select(images.c.job_id).where(which)
    statement = sa.select(jobs.c.id).where(jobs.c.id.in_(job_ids)).order_by(jobs.c.id)
    return list(await connection.scalars(statement.with_for_update()))


async def lock_owned_job(connection: AsyncConnection, job_id: str, user_id: int | None) -> int:
    """Lock a job for the person `user_id`, or None for a moderator; return the id of the job's person.

    Raises UnknownJob, or NotYours.
    """
    await lock_job(connection, job_id)
    owner: int | None = await connection.scalar(sa.select(jobs.c.user_id).where(jobs.c.id == job_id))
    if owner is None:
        raise UnknownJob(job=job_id)
    if user_id not in (None, owner):
        raise NotYours(job=job_id)
    return owner


async def settle(connection: AsyncConnection, job_id: str, *, now: float) -> bool:
    """Derive the job's state from the states of its images; a final state makes its result due.

    Returns whether the job became final now.
    """
    states = await connection.scalars(sa.select(images.c.state).where(images.c.job_id == job_id))
    # A state of a newer version is none of the final ones.
    state = state_of_job([each if isinstance(each, State) else State.RUNNING for each in states])
    values: dict[str, Any] = {"state": state}
    if state is State.RUNNING:
        values["started_at"] = sa.func.coalesce(jobs.c.started_at, now)
    if state.final:
        values["finished_at"] = now
        values["hold"] = sa.func.coalesce(jobs.c.hold, _hold_of_pictures(job_id))
    changed = await connection.execute(
        sa.update(jobs).where(jobs.c.id == job_id, jobs.c.state.in_(ACTIVE)).values(values)
    )
    if not (state.final and changed.rowcount):
        return False
    await drop_previews(connection, job_id)
    await recount(connection, job_id)
    if not await add(connection, Outgoing.RESULT, job_id, now=now):  # it was reopened
        await renew_results(connection, [job_id], now=now)
    await open_for_held(connection, job_id, now=now)
    return True


async def reopen(connection: AsyncConnection, job_id: str) -> bool:
    """Let the failed images of a locked job that has ended wait again; return whether there are any.

    It is the one change of a final state. The job keeps its message, which its new result edits. A job whose
    result is on its way stays as it is, as do deleted jobs and those of group sessions.
    """
    sent = sa.exists().where(outbox.c.job_id == jobs.c.id, ~UNSETTLED)
    in_session = sa.exists().where(session_jobs.c.job_id == jobs.c.id)
    ended = (jobs.c.id == job_id) & jobs.c.finished_at.is_not(None) & jobs.c.deleted_at.is_(None)
    if await connection.scalar(sa.select(jobs.c.id).where(ended, sent, ~in_session)) is None:
        return False
    failed = (images.c.job_id == job_id) & (images.c.state == State.FAILED)
    fresh: dict[str, Any] = {
        "state": State.WAITING,
        "failure": None,
        "trouble": None,
        "step": 0,
        "furthest": 0,
    }
    fresh |= {"begun": False, "worker": None, "worker_deaths": 0, "leases_lost": 0}
    if not (await connection.execute(sa.update(images).where(failed).values(fresh))).rowcount:
        return False
    states = list(await connection.scalars(sa.select(images.c.state).where(images.c.job_id == job_id)))
    state = state_of_job([each if isinstance(each, State) else State.DONE for each in states])
    again = sa.update(jobs).where(jobs.c.id == job_id)
    await connection.execute(again.values(state=state, finished_at=None))
    return True


def _hold_of_pictures(job_id: str) -> sa.ColumnElement[str | None]:
    """Return the hold of a job whose images have ended: Cause.PICTURE if a picture rule holds one, else NULL.

    It is set only at the end, because a hold of the job would hold its other pictures too.
    """
    held = sa.exists().where(images.c.job_id == job_id, images.c.showing == Showing.HOLD)
    return sa.case((held, sa.literal(Cause.PICTURE.value)), else_=sa.null())


async def renew_results(connection: AsyncConnection, job_ids: Sequence[str], *, now: float) -> None:
    """Make the results of locked jobs due again, because their messages must change.

    An attempt under way can no longer settle its delivery. A result that was settled goes to any front, as
    its own may be gone.
    """
    settled = sa.select(outbox.c.job_id).where(outbox.c.job_id.in_(job_ids), ~UNSETTLED)
    await connection.execute(sa.update(jobs).where(jobs.c.id.in_(settled)).values(front=None))
    await renew(connection, Outgoing.RESULT, job_ids, now=now)


async def cancel_images(connection: AsyncConnection, job_id: str, *, now: float) -> bool:
    """Cancel the images of a locked job that are not final; images that never ran are refunded.

    Returns whether the job became final now.
    """
    mine = images.c.job_id == job_id
    rows = await connection.execute(
        sa.select(images.c.state, images.c.share).where(mine).order_by(images.c.id).with_for_update()
    )
    unused = [row.share for row in rows if row.state is State.WAITING]
    await connection.execute(move(State.CANCELLED, mine))
    if unused and not await refund_in_session(connection, job_id, unused):
        user_id = sa.select(jobs.c.user_id).where(jobs.c.id == job_id).scalar_subquery()
        await refund(connection, user_id, unused)
    return await settle(connection, job_id, now=now)


async def refund(
    connection: AsyncConnection, user_id: int | sa.ScalarSelect[int], shares: Iterable[float]
) -> None:
    """Subtract the shares of images that never ran from a user's last tag."""
    tag = last_tags.c.tag - fair_order.refund(shares)
    await connection.execute(sa.update(last_tags).where(last_tags.c.user_id == user_id).values(tag=tag))
