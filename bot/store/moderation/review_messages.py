"""The outbox of moderators' messages: one for each review, which shows the review's state.

A message that is due is leased to one front at a time. A change of the review makes it due again; then
an attempt under way can no longer settle it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.errors import UserMistake
from bot.domain.holds import Outcome
from bot.domain.jobs import Job
from bot.store.database.database import Verbs
from bot.store.moderation.appeals import DUE, LEFT
from bot.store.rows.jobs import MOST_NEWER, load_jobs, unreadable_among
from bot.store.rows.reviews import (
    Kind,
    Review,
    about_pictures,
    readable_reviews,
    review_of,
    settings_of,
)
from bot.store.tables.reviews import reports, reviews

LEASE_SECONDS = 60.0
FURTHEST_RETRY = 900.0  # seconds; a later time was written before the clock was set back
SHOWN_REPORTS = 5


@dataclass(frozen=True, kw_only=True)
class DueReview:
    """A review whose message is due.

    `job` is None for a review without a job, or whose job is gone. `place` is the channel to post in, None
    before a server has chosen one. `reported` are the latest reasons of `count` reports. With `answers`, the
    person must also be told that the appeal of a prompt was declined.

    For an appeal `first` is the review whose end the person appeals against, if it is kept. `appeals` counts
    the person's earlier appeals in the server that are kept, and `accepted` those that were accepted.
    """

    review: Review
    job: Job | None
    place: int | None
    reported: tuple[str, ...]
    count: int
    answers: bool
    attempts: int
    fencing_token: int
    first: Review | None = None
    appeals: int = 0
    accepted: int = 0

    @property
    def tried_before(self) -> bool:
        """Whether an earlier attempt may have posted the message."""
        return self.fencing_token > 1


class ReviewMessages(Verbs):
    """The verbs of the moderators' messages."""

    async def claim(self, *, limit: int) -> list[DueReview]:
        """Lease messages that are due, the longest due first.

        Reviews that this version cannot read are passed over: they wait for a front that can.
        """
        await self._shared.tell_time()
        now = self._clock()
        over = (reviews.c.next_try_at <= now) | (reviews.c.next_try_at > now + FURTHEST_RETRY)
        over &= reviews.c.next_try_at.is_not(None)  # so that SQLite does not read these in the index
        look = sa.select(reviews).where(over, reviews.c.kind != Kind.REFUSED.value)
        look = look.order_by(reviews.c.next_try_at).with_for_update(skip_locked=True)
        async with self._database.read() as connection:  # polled often, and a message is rarely due
            if not await connection.scalar(sa.select(sa.exists().where(over))):
                return []
        async with self._database.write() as connection:
            readable = await _readable(connection, look, limit=limit)
            leased = {"next_try_at": now + LEASE_SECONDS, "fencing_token": reviews.c.fencing_token + 1}
            lease = sa.update(reviews).where(reviews.c.id.in_(readable)).values(leased).returning(*reviews.c)
            rows = list(await connection.execute(lease))
            return [await self._due(connection, row, readable[row.id]) for row in rows]

    async def case(self, review_id: int, guild_id: int) -> DueReview:
        """Return a review of a server with all that its message shows; raises UserMistake `review_gone`.

        It is not leased: a message of the review may be on its way.
        """
        mine = (reviews.c.id == review_id) & (reviews.c.guild_id == guild_id)
        look = sa.select(reviews).where(mine, reviews.c.kind != Kind.REFUSED.value)
        async with self._database.read() as connection:
            readable = await _readable(connection, look, limit=1)
            row = (await connection.execute(look)).one_or_none()
            if row is None or row.id not in readable:
                raise UserMistake("review_gone")
            return await self._due(connection, row, readable[row.id])

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
        review = review_of(row)
        about = await _about_appeal(connection, review) if review.kind is Kind.APPEAL else {}
        return DueReview(
            review=review,
            **about,
            job=None if job is None or job.deleted_at is not None else job,
            place=settings.channel_id,
            reported=tuple(filter(None, reasons)),
            count=count or 0,
            answers=row.answer == DUE,
            attempts=row.attempts,
            fencing_token=row.fencing_token,
        )


async def _about_appeal(connection: AsyncConnection, appeal: Review) -> dict[str, Any]:
    """Return the decision against which a person appeals, and how often the person has appealed before."""
    same = (reviews.c.job_id == appeal.job_id) & about_pictures()
    rejected = same & reviews.c.outcome.in_([Outcome.REJECTED.value, Outcome.EXPIRED.value])
    latest = sa.select(reviews).where(rejected, reviews.c.decided_at <= appeal.opened_at)
    rows = await connection.execute(latest.order_by(reviews.c.decided_at.desc()).limit(1))
    mine = (reviews.c.user_id == appeal.user_id) & (reviews.c.guild_id == appeal.guild_id)
    mine &= (reviews.c.kind == Kind.APPEAL.value) & (reviews.c.opened_at < appeal.opened_at)
    accepted = sa.func.count(
        sa.case((reviews.c.outcome.in_([each.value for each in Outcome if each.shows]), 1))
    )
    counts = (await connection.execute(sa.select(sa.func.count(), accepted).where(mine))).one()
    return {"first": next(iter(readable_reviews(rows)), None), "appeals": counts[0], "accepted": counts[1]}


async def _readable(
    connection: AsyncConnection, look: sa.Select[Any], *, limit: int
) -> dict[int, Job | None]:
    """Return the first reviews of `look` that this version can read, by id, each with its job."""
    passed: set[int] = set()
    while True:
        others = look.where(reviews.c.id.not_in(passed)) if passed else look
        rows = list(await connection.execute(others.limit(limit)))
        job_ids = [row.job_id for row in rows if row.job_id]
        found = await load_jobs(connection, job_ids)
        unreadable = await unreadable_among(connection, job_ids, found)
        of_id = {job.id: job for job in found}
        readable = {
            review.id: of_id.get(review.job_id or "")
            for review in readable_reviews(row for row in rows if row.job_id not in unreadable)
        }
        if len(readable) == len(rows) or len(passed) > MOST_NEWER:
            return readable
        passed |= {row.id for row in rows} - readable.keys()
