"""The outbox of moderators' messages: one for each review, which shows the review's state.

A message that is due is leased to one front at a time. A change of the review makes it due again; then
an attempt under way can no longer settle it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from bot.jobs import Job
from bot.store.appeals import DUE, LEFT
from bot.store.database import Verbs
from bot.store.review_rows import Kind, Review, review_of, settings_of
from bot.store.review_tables import reports, reviews
from bot.store.rows import load_jobs

LEASE_SECONDS = 60.0
FURTHEST_RETRY = 900.0  # seconds; a later time was written before the clock was set back
SHOWN_REPORTS = 5


@dataclass(frozen=True, kw_only=True)
class DueReview:
    """A review whose message is due.

    `job` is None for a review without a job, or whose job is gone. `place` is the channel to post in, None
    before a server has chosen one. `reported` are the latest reasons of `count` reports. With `answers`, the
    person must also be told that the appeal of a prompt was declined.
    """

    review: Review
    job: Job | None
    place: int | None
    reported: tuple[str, ...]
    count: int
    answers: bool
    attempts: int
    fencing_token: int

    @property
    def tried_before(self) -> bool:
        """Whether an earlier attempt may have posted the message."""
        return self.fencing_token > 1


class ReviewMessages(Verbs):
    """The verbs of the moderators' messages."""

    async def claim(self, *, limit: int) -> list[DueReview]:
        """Lease messages that are due, the longest due first."""
        await self._shared.tell_time()
        now = self._clock()
        over = (reviews.c.next_try_at <= now) | (reviews.c.next_try_at > now + FURTHEST_RETRY)
        over &= reviews.c.next_try_at.is_not(None)  # so that SQLite does not read these in the index
        look = sa.select(reviews.c.id).where(over, reviews.c.kind != Kind.REFUSED.value)
        look = look.order_by(reviews.c.next_try_at).limit(limit).with_for_update(skip_locked=True)
        async with self._database.read() as connection:  # polled often, and a message is rarely due
            if not await connection.scalar(sa.select(sa.exists().where(over))):
                return []
        async with self._database.write() as connection:
            ids = list(await connection.scalars(look))
            leased = {"next_try_at": now + LEASE_SECONDS, "fencing_token": reviews.c.fencing_token + 1}
            lease = sa.update(reviews).where(reviews.c.id.in_(ids)).values(leased).returning(*reviews.c)
            rows = list(await connection.execute(lease))
            found = await load_jobs(connection, [row.job_id for row in rows if row.job_id])
            of_id = {job.id: job for job in found}
            return [await self._due(connection, row, of_id.get(row.job_id)) for row in rows]

    async def settle(
        self, due: DueReview, *, message_id: int | None, channel_id: int | None, told: bool = True
    ) -> None:
        """Record that the message is up to date, and whether the person was told, if there was an answer.

        A message that was posted is remembered, even if the review has changed meanwhile.
        """
        place = {"message_id": message_id, "channel_id": channel_id}
        mine = reviews.c.id == due.review.id
        over = {"next_try_at": None, "attempts": 0, "trouble": ""}
        if due.answers:
            over["answer"] = None if told else LEFT
        async with self._database.write() as connection:
            if message_id is not None:
                await connection.execute(sa.update(reviews).where(mine).values(place))
            same = mine & (reviews.c.fencing_token == due.fencing_token)
            await connection.execute(sa.update(reviews).where(same).values(over))

    async def retry(self, due: DueReview, *, seconds: float, trouble: str = "", lost: bool = False) -> None:
        """Make the message due again in some seconds; with `lost`, in a new message."""
        same = (reviews.c.id == due.review.id) & (reviews.c.fencing_token == due.fencing_token)
        again_at = self._clock() + min(seconds, FURTHEST_RETRY)
        values: dict[str, Any] = {"next_try_at": again_at, "attempts": reviews.c.attempts + 1}
        values |= {"trouble": trouble} | ({"message_id": None, "channel_id": None} if lost else {})
        async with self._database.write() as connection:
            await connection.execute(sa.update(reviews).where(same).values(values))

    async def _due(self, connection: Any, row: Any, job: Job | None) -> DueReview:
        mine = reports.c.job_id == (row.job_id or "")
        count = await connection.scalar(sa.select(sa.func.count()).select_from(reports).where(mine))
        latest = sa.select(reports.c.reason).where(mine).order_by(reports.c.at.desc()).limit(SHOWN_REPORTS)
        reasons: Sequence[str] = list(await connection.scalars(latest))
        settings = await settings_of(connection, row.guild_id)
        return DueReview(
            review=review_of(row),
            job=None if job is None or job.deleted_at is not None else job,
            place=settings.channel_id,
            reported=tuple(filter(None, reasons)),
            count=count or 0,
            answers=row.answer == DUE,
            attempts=row.attempts,
            fencing_token=row.fencing_token,
        )
