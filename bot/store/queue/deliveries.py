"""Deliveries: which results are due, which front sends them, and their outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.jobs import Delivery
from bot.domain.outbox import Outgoing
from bot.store.files.picture_files import files_of, let_go_unneeded
from bot.store.rows.audit import Act, By, note
from bot.store.rows.jobs import forget_words, load_jobs
from bot.store.rows.outbox import UNSETTLED, OutboxVerbs, Shown, ended
from bot.store.rows.reviews import withdraw
from bot.store.rows.transitions import cancel_images, lock_job, lock_owned_job
from bot.store.tables.outbox import outbox
from bot.store.tables.queue import images, jobs, start_pictures

DELETED = "deleted"


class Deliveries(OutboxVerbs[Delivery]):
    """The verbs of results: of a front's own jobs, and of jobs without a front, which it adopts."""

    kind, due, locks = Outgoing.RESULT, Delivery, (outbox, jobs)

    def _of(self, front: str, look: sa.Select[Any]) -> sa.Select[Any]:
        return look.join(jobs, jobs.c.id == outbox.c.job_id).where(shown_by(front))

    async def _load(self, connection: AsyncConnection, rows: Sequence[Any]) -> Shown:
        of_id = {job.id: job for job in await load_jobs(connection, [row.job_id for row in rows])}
        return {row.id: {"job": of_id[row.job_id]} for row in rows if row.job_id in of_id}

    async def _taken(
        self, connection: AsyncConnection, front: str, claimed: list[Delivery]
    ) -> list[Delivery]:
        await _adopt(connection, front, [each.job.id for each in claimed])
        return [
            replace(each, job=replace(each.job, origin=replace(each.job.origin, front=front)))
            for each in claimed
        ]

    async def adopt(self, front: str, job_ids: Sequence[str]) -> set[str]:
        """Give the jobs that have no front to this one, and return their ids."""
        async with self._database.write() as connection:
            return await _adopt(connection, front, job_ids)

    async def mark_delivered(
        self,
        delivery: Delivery,
        *,
        outcome: str,
        message_id: int | None = None,
        channel_id: int | None = None,
    ) -> bool:
        """Store the outcome of a delivery; the first outcome stays. False if the person deleted the job.

        `message_id` is the message that shows the result, `channel_id` its channel where that is not the
        job's. After a later claim only the message is stored, if the job has none.
        """
        job_id = delivery.job.id
        async with self._database.write() as connection:
            await lock_job(connection, job_id)
            changed = await ended(connection, delivery, outcome=outcome, settled_at=self._clock())
            if message_id is not None:
                place = {"message_id": message_id, "message_channel_id": channel_id}
                here = sa.update(jobs).where(jobs.c.id == job_id)
                # After a later claim the job keeps the message that it already has.
                here = here if changed else here.where(jobs.c.message_id.is_(None))
                await connection.execute(here.values(place))
            wanted = sa.select(jobs.c.id).where(jobs.c.id == job_id, jobs.c.deleted_at.is_(None))
            return await connection.scalar(wanted) is not None

    async def delete_result(self, job_id: str, *, user_id: int | None, by: By | None = None) -> list[str]:
        """Delete the images and the words of a job; unfinished images are cancelled and never delivered.

        `user_id` is the person who asks, None a moderator, whom the log names as `by`. Returns the names of
        the files, painted or started from, that no other job needs: the caller deletes them and calls
        `files.note_deleted`. Raises UnknownJob, or NotYours.
        """
        now = self._clock()
        async with self._telling(cancelled=True) as connection:
            owner = await lock_owned_job(connection, job_id, user_id)
            names = await files_of(connection, [job_id])
            deleted = await _delete(connection, job_id, now=now)
            if by is not None and deleted:
                after = {"job": job_id}
                await note(connection, Act.DELETE, by, at=now, subject_id=owner, after=after)
            return await let_go_unneeded(connection, names, now=now)

    async def clear(self, job_ids: Sequence[str], *, by: By, subject_id: int) -> tuple[int, list[str]]:
        """Delete the results of jobs of one person, for a moderator; the log gets one entry.

        Returns how many were not deleted before, and file names as `delete_result` does.
        """
        now = self._clock()
        which = sa.select(jobs.c.id).where(jobs.c.id.in_(job_ids), jobs.c.user_id == subject_id)
        async with self._telling(cancelled=True) as connection:
            locked = list(await connection.scalars(which.order_by(jobs.c.id).with_for_update()))
            # All at once and in the order of heartbeats, which lock images of several jobs.
            theirs = sa.select(images.c.id).where(images.c.job_id.in_(locked)).order_by(images.c.id)
            await connection.execute(theirs.with_for_update())
            names = await files_of(connection, locked)
            deleted = [await _delete(connection, job_id, now=now) for job_id in locked]
            if count := sum(deleted):
                after = {"requests": count}
                await note(connection, Act.CLEAR, by, at=now, subject_id=subject_id, after=after)
            return count, await let_go_unneeded(connection, names, now=now)


async def _delete(connection: AsyncConnection, job_id: str, *, now: float) -> bool:
    """Delete the images and the words of a locked job; return whether it was not deleted before."""
    await cancel_images(connection, job_id, now=now)
    await withdraw(connection, [job_id], now=now)
    await _name_no_files(connection, job_id)
    await forget_words(connection, job_id)
    there = sa.update(jobs).where(jobs.c.id == job_id, jobs.c.deleted_at.is_(None))
    changed = await connection.execute(there.values(deleted_at=now))
    # What was claimed before may have been posted: its front looks for the message, and deletes it.
    unsent = sa.update(outbox).where(outbox.c.job_id == job_id, UNSETTLED, outbox.c.fencing_token == 0)
    await connection.execute(unsent.values(outcome=DELETED, settled_at=now))
    return bool(changed.rowcount)


async def _name_no_files(connection: AsyncConnection, job_id: str) -> None:
    await connection.execute(sa.update(images).where(images.c.job_id == job_id).values(artifact=None))
    await connection.execute(sa.delete(start_pictures).where(start_pictures.c.job_id == job_id))


def shown_by(front: str) -> sa.ColumnElement[bool]:
    """Return the condition for jobs of this front, and for jobs without a front, which it may adopt."""
    return (jobs.c.front == front) | jobs.c.front.is_(None)


async def _adopt(connection: AsyncConnection, front: str, job_ids: Sequence[str]) -> set[str]:
    free = sa.select(jobs.c.id).where(jobs.c.id.in_(job_ids), jobs.c.front.is_(None)).order_by(jobs.c.id)
    mine = sa.update(jobs).where(jobs.c.id.in_(free.with_for_update())).values(front=front)
    return set(await connection.scalars(mine.returning(jobs.c.id)))
