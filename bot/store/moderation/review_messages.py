"""The moderators' messages: one for each review, which shows the review's state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.errors import UserMistake
from bot.domain.holds import Outcome
from bot.domain.jobs import Job
from bot.domain.outbox import Due, Outgoing
from bot.store.moderation.appeals import DUE, LEFT
from bot.store.rows.jobs import load_jobs, unreadable_among
from bot.store.rows.outbox import OutboxVerbs, Shown, ended
from bot.store.rows.reviews import (
    Kind,
    Review,
    about_pictures,
    readable_reviews,
    settings_of,
)
from bot.store.tables.outbox import outbox
from bot.store.tables.reviews import reports, reviews

SHOWN_REPORTS = 5


@dataclass(frozen=True, kw_only=True)
class Case:
    """A review with all that its message shows.

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
    first: Review | None = None
    appeals: int = 0
    accepted: int = 0


@dataclass(frozen=True, kw_only=True)
class DueReview(Due):
    """A review whose message is due."""

    case: Case

    @property
    def review(self) -> Review:
        """The review."""
        return self.case.review


class ReviewMessages(OutboxVerbs[DueReview]):
    """The verbs of the moderators' messages, each of which one front has until it ends."""

    kind, due = Outgoing.REVIEW, DueReview

    def _of(self, front: str, look: sa.Select[Any]) -> sa.Select[Any]:
        return look.where(outbox.c.front.is_(None) | (outbox.c.front == front))

    async def _load(self, connection: AsyncConnection, rows: Sequence[Any]) -> Shown:
        of_review = {row.review_id: row.id for row in rows}
        cases = await _cases(connection, sa.select(reviews).where(reviews.c.id.in_(of_review)))
        return {of_review[case.review.id]: {"case": case} for case in cases}

    async def case(self, review_id: int, guild_id: int | None) -> Case:
        """Return a review of a server, of any for None, with all that its message shows.

        Raises UserMistake `review_gone`.
        """
        here = sa.true() if guild_id is None else reviews.c.guild_id == guild_id
        mine = (reviews.c.id == review_id) & here
        look = sa.select(reviews).where(mine, reviews.c.kind != Kind.REFUSED.value)
        async with self._database.read() as connection:
            for case in await _cases(connection, look):
                return case
        raise UserMistake("review_gone")

    async def settle(
        self,
        due: DueReview,
        *,
        message_id: int | None,
        channel_id: int | None,
        told: bool = True,
        outcome: str = "sent",
    ) -> None:
        """Record that the message is up to date, and whether the person was told, if there was an answer.

        A message that was posted is remembered, even if the review has changed meanwhile.
        """
        mine = reviews.c.id == due.review.id
        place = {"message_id": message_id, "channel_id": channel_id} if message_id is not None else {}
        over = {"trouble": ""} | ({"answer": None if told else LEFT} if due.case.answers else {})
        async with self._database.write() as connection:
            # Every transaction locks reviews before their messages.
            await connection.execute(sa.select(reviews.c.id).where(mine).with_for_update())
            settled = await ended(connection, due, outcome=outcome, settled_at=self._clock())
            if values := place | (over if settled else {}):
                await connection.execute(sa.update(reviews).where(mine).values(values))

    async def note_trouble(self, due: DueReview, trouble: str, *, lost: bool = False) -> None:
        """Note why the message cannot be sent; if it is `lost`, the next attempt posts a new message.

        Nothing changes after a later claim of the message.
        """
        values: dict[str, Any] = {"trouble": trouble}
        values |= {"message_id": None, "channel_id": None} if lost else {}
        current = sa.exists().where(outbox.c.id == due.id, outbox.c.fencing_token == due.fencing_token)
        mine = sa.update(reviews).where(reviews.c.id == due.review.id, current)
        await self._write(mine.values(values))


async def _case(connection: AsyncConnection, row: Any, review: Review, job: Job | None) -> Case:
    mine = reports.c.job_id == (row.job_id or "")
    count = await connection.scalar(sa.select(sa.func.count()).select_from(reports).where(mine))
    latest = sa.select(reports.c.reason).where(mine).order_by(reports.c.at.desc()).limit(SHOWN_REPORTS)
    reasons: Sequence[str] = list(await connection.scalars(latest))
    settings = await settings_of(connection, row.guild_id)
    about = await _about_appeal(connection, review) if review.kind is Kind.APPEAL else {}
    return Case(
        review=review,
        **about,
        job=None if job is None or job.deleted_at is not None else job,
        place=settings.channel_id,
        reported=tuple(filter(None, reasons)),
        count=count or 0,
        answers=row.answer == DUE,
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


async def _cases(connection: AsyncConnection, look: sa.Select[Any]) -> list[Case]:
    """Return the reviews of `look` that this version can read."""
    rows = list(await connection.execute(look))
    job_ids = [row.job_id for row in rows if row.job_id]
    found = await load_jobs(connection, job_ids)
    unreadable = await unreadable_among(connection, job_ids, found)
    of_id, of_row = {job.id: job for job in found}, {row.id: row for row in rows}
    return [
        await _case(connection, of_row[review.id], review, of_id.get(review.job_id or ""))
        for review in readable_reviews(row for row in rows if row.job_id not in unreadable)
    ]
