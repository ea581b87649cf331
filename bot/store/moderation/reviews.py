"""Reviews: held or reported pictures and appeals, and the decisions of moderators on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.errors import UnknownJob, UserMistake
from bot.domain.holds import Cause, Hold, Outcome, Ruling
from bot.domain.jobs import Job
from bot.domain.outbox import Outgoing
from bot.store.database.database import Verbs, insert
from bot.store.moderation.appeals import end_appeal
from bot.store.moderation.holds import ANYWAY, hold_again, hold_pictures, lock_sharing, rule_on
from bot.store.rows.audit import OPERATOR, Act, By, note
from bot.store.rows.jobs import load_job
from bot.store.rows.outbox import UNSETTLED, renew
from bot.store.rows.reviews import (
    Kind,
    Review,
    ReviewSettings,
    about_pictures,
    close,
    is_followed,
    open_for_held,
    readable_reviews,
    review_of,
    settings_of,
    waits,
)
from bot.store.rows.revisions import hold_server
from bot.store.tables.outbox import outbox
from bot.store.tables.queue import audit, images
from bot.store.tables.reviews import review_settings, reviews

ACTS: Mapping[Outcome, Act] = {
    Outcome.SHOWN: Act.APPROVE,
    Outcome.SPOILER: Act.COVER,
    Outcome.REJECTED: Act.REJECT,
    Outcome.DECLINED: Act.DECLINE,
    Outcome.EXPIRED: Act.EXPIRE,
}
"""The names of a review's ends in the log."""


class Reviews(Verbs):
    """The verbs of reviews. A decision, its row in the log and the new delivery are one transaction."""

    async def settings(self, guild_id: int) -> ReviewSettings:
        """Return how a server reviews."""
        async with self._database.read() as connection:
            return await settings_of(connection, guild_id)

    async def set_channel(self, channel_id: int | None, by: By) -> None:
        """Set the moderators' channel, or none; open reviews without a message are posted there."""
        await self._set(by, {"channel_id": channel_id})

    async def set_settings(
        self, by: By, *, hours: int | None = None, reports: int | None = None
    ) -> ReviewSettings:
        """Change the hours, the number of reports or both; return what holds now."""
        new = {"hours": hours, "reports": reports}
        return await self._set(by, {name: value for name, value in new.items() if value is not None})

    async def _set(self, by: By, changes: Mapping[str, int | None]) -> ReviewSettings:
        now = self._clock()
        async with self._telling(results=True) as connection:
            await hold_server(connection, by.guild_id)  # the log says what this change has replaced
            before = asdict(await settings_of(connection, by.guild_id))
            after = {**before, **changes}
            row = insert(connection, review_settings).values(guild_id=by.guild_id, **after)
            key = [review_settings.c.guild_id]
            await connection.execute(row.on_conflict_do_update(index_elements=key, set_=dict(changes)))
            unseen = waits() & (reviews.c.guild_id == by.guild_id) & reviews.c.message_id.is_(None)
            await renew(connection, Outgoing.REVIEW, sa.select(reviews.c.id).where(unseen), now=now)
            await note(connection, Act.REVIEW, by, at=now, before=before, after=after)
        return ReviewSettings(**after)

    async def hold(self, job_id: str, hold: Hold, by: By) -> Job:
        """Hide the pictures of a finished job until moderators decide; its message says so.

        Raises UnknownJob for a job that is gone or deleted, UserMistake `no_picture` where nothing is shown.
        """
        async with self._telling(results=True) as connection:
            held = await hold_pictures(connection, job_id, hold, now=self._clock())
            return await self._note_held(connection, job_id, hold, by, held)

    async def undo(self, review: Review, by: By) -> None:
        """Hold again the pictures that a review has let through or rejected, for another decision.

        Raises UserMistake `review_over` where they have been decided about since, or somebody has appealed,
        and as `hold` does.
        """
        async with self._telling(results=True) as connection:
            job = await load_job(connection, review.job_id or "")
            hold = job.hold or Hold(cause=Cause.MODE)
            rejected = await _rejected_by(connection, review)
            held = await hold_again(connection, job.id, hold, rejected=rejected, now=self._clock())
            await self._note_held(connection, job.id, hold, by, held)
            if await is_followed(connection, review):  # read under the locks of the jobs
                raise UserMistake("review_over")

    async def is_last(self, review: Review) -> bool:
        """Return whether a decided review is the last word about its pictures."""
        async with self._database.read() as connection:
            return not await is_followed(connection, review)

    async def get(self, review_id: int, guild_id: int | None) -> Review:
        """Return a review of a server, of any for None; raises UserMistake `review_gone`."""
        look = sa.select(reviews).where(_known(review_id, guild_id))
        row = await self._row(look)
        if row is None:
            raise UserMistake("review_gone")
        return review_of(row)

    async def waiting(self, guild_id: int, *, limit: int) -> list[Review]:
        """Return the reviews that wait in a server, the oldest first."""
        look = sa.select(reviews).where(reviews.c.guild_id == guild_id, waits())
        rows = await self._rows(look.order_by(reviews.c.opened_at, reviews.c.id).limit(limit))
        return readable_reviews(rows)

    async def decide(
        self,
        review_id: int,
        outcome: Outcome,
        by: By,
        *,
        own: bool = False,
        but: Mapping[int, Outcome] = MappingProxyType({}),
    ) -> Review:
        """Decide a review; `by` has the reason, which the person is told of a rejection.

        Held or reported pictures at the indices of `but` have another outcome than the rest. The first
        decision stands, and decides other reviews of the same pictures too. Raises UserMistake `review_gone`
        without such a review in the server, `review_over` for one that is over, and, unless `own`,
        `review_own` for a review of what `by` has asked for.
        """
        return await self._end(review_id, outcome, by, own=own, but=but)

    async def _note_held(
        self, connection: AsyncConnection, job_id: str, hold: Hold, by: By, held: list[str]
    ) -> Job:
        """Open the review of a job whose pictures were held in the jobs `held`; raises as `hold` does."""
        now = self._clock()
        job = await load_job(connection, job_id)
        if job.deleted_at is not None:
            raise UnknownJob(job=job_id)
        if not held:
            raise UserMistake("no_picture")
        await open_for_held(connection, job_id, now=now)
        after = {"job": job_id, "cause": hold.cause.value}
        await note(connection, Act.HIDE, by, at=now, subject_id=job.origin.user_id, after=after)
        return job

    async def expire(self, *, limit: int) -> int:
        """End the reviews whose time is over, and return how many; held pictures are withheld."""
        known = reviews.c.kind.in_([kind.value for kind in Kind])  # a newer version ends its own kinds
        over = sa.select(reviews.c.id, reviews.c.guild_id).where(
            waits(), known, reviews.c.due_at <= self._clock()
        )
        rows = await self._rows(over.order_by(reviews.c.due_at).limit(limit))
        ended = 0
        for row in rows:
            try:
                await self._end(row.id, Outcome.EXPIRED, By(actor_id=OPERATOR, guild_id=row.guild_id))
                ended += 1
            except UserMistake:  # a moderator was faster
                continue
        return ended

    async def forget(self, *, before: float, limit: int) -> int:
        """Delete reviews that ended before this time and expired refusals; return how many."""
        ended = reviews.c.outcome.is_not(None) & (reviews.c.decided_at < before)
        ended &= reviews.c.answer.is_(None) & ~sa.exists().where(
            outbox.c.review_id == reviews.c.id, UNSETTLED
        )
        refused = (reviews.c.kind == Kind.REFUSED.value) & (reviews.c.due_at <= self._clock())
        old = ended | refused
        some = reviews.c.id.in_(sa.select(reviews.c.id).where(old).limit(limit))
        # A refusal may be appealed between the search and its deletion, so `old` stands here too.
        return await self._write(sa.delete(reviews).where(some, old))

    async def _end(
        self,
        review_id: int,
        outcome: Outcome,
        by: By,
        *,
        own: bool = False,
        but: Mapping[int, Outcome] = MappingProxyType({}),
    ) -> Review:
        now = self._clock()
        ruling = Ruling(outcome=outcome, reason=by.reason)
        async with self._changing() as (connection, changes):
            row = (
                await connection.execute(sa.select(reviews).where(_known(review_id, by.guild_id)))
            ).one_or_none()
            if row is None:
                raise UserMistake("review_gone")
            review = review_of(row)
            if review.user_id == by.actor_id and not own:
                raise UserMistake("review_own")
            # Pictures first: jobs are locked before reviews in every transaction.
            rejects = outcome is Outcome.REJECTED
            rest = await _left_by_rejections(connection, review, but) if rejects else None
            job_ids = await _change_pictures(connection, review, ruling, but, now=now)
            if review.kind is Kind.APPEAL:
                changes.work = await end_appeal(connection, review, ruling, now=now)
            which = reviews.c.id == review_id
            if review.kind is not Kind.APPEAL:
                which |= reviews.c.job_id.in_(job_ids) & about_pictures()
            values = {"decided_by": by.actor_id, "reason": by.reason}
            closed = {each.id: each for each in await close(connection, which, outcome, now=now, **values)}
            if review_id not in closed:
                raise UserMistake("review_over")
            about: dict[str, Any] = {"kind": review.kind.value}
            about |= {"job": review.job_id} if review.job_id else {}
            for each in sorted({outcome, *but.values()}, key=list(Outcome).index):
                some = [index for index, other in sorted(but.items()) if other is each]
                indices = rest if each is outcome else some
                after = about | ({} if indices is None else {"pictures": [1 + index for index in indices]})
                await note(connection, ACTS[each], by, at=now, subject_id=review.user_id, after=after)
            changes.results = True
        return review_of(closed[review_id])


def _known(review_id: int, guild_id: int | None) -> sa.ColumnElement[bool]:
    here = sa.true() if guild_id is None else reviews.c.guild_id == guild_id
    return here & (reviews.c.id == review_id) & (reviews.c.kind != Kind.REFUSED.value)


async def _left_by_rejections(
    connection: AsyncConnection, review: Review, but: Mapping[int, Outcome]
) -> list[int] | None:
    """Return the indices of the pictures that earlier rejections have left, without those of `but`.

    None without an earlier rejection. The log of a rejection names these pictures, because an undo must not
    take the earlier rejections back.
    """
    columns = images.c.index, images.c.showing, images.c.ruling
    look = sa.select(*columns).where(images.c.job_id == review.job_id, images.c.artifact.is_not(None))
    rows = [tuple(row) for row in await connection.execute(look.order_by(images.c.index))]
    if all(ruling != Outcome.REJECTED.value for _, _, ruling in rows):
        return None
    return [index for index, showing, _ in rows if showing in ANYWAY and index not in but]


async def _rejected_by(connection: AsyncConnection, review: Review) -> sa.ColumnElement[bool]:
    """Return the condition for the pictures of the review's job that it has rejected, by the log."""
    # With the server and the act as conditions, SQLite might read all rejections of the server.
    then = (audit.c.subject_id == review.user_id) & (audit.c.at == review.decided_at)
    rows = await connection.execute(sa.select(audit.c.act, audit.c.after).where(then))
    theirs = [row.after for row in rows if row.act == Act.REJECT and row.after.get("job") == review.job_id]
    if not theirs:
        return sa.false()
    rejected = (images.c.ruling == Outcome.REJECTED.value) & (images.c.ruling_reason == review.reason)
    if (numbers := theirs[0].get("pictures")) is not None:
        rejected &= images.c.index.in_([number - 1 for number in numbers])
    return rejected


async def _change_pictures(
    connection: AsyncConnection, review: Review, ruling: Ruling, but: Mapping[int, Outcome], *, now: float
) -> list[str]:
    """Show held or reported pictures as decided; return the jobs that show them.

    A job's own ruling is the mildest one: it says whether others may read the words.
    """
    if review.kind is Kind.APPEAL or review.job_id is None:
        return []
    changed: list[str] = []
    if but:  # in one order: the rulings lock parts of these
        await lock_sharing(connection, review.job_id, ANYWAY)
    for outcome in sorted({ruling.outcome, *but.values()}, key=list(Outcome).index, reverse=True):
        # Where moderators uphold a report, the ruling changes pictures that are still shown too.
        reported = review.kind is Kind.REPORT and outcome in (Outcome.SPOILER, Outcome.REJECTED)
        which: dict[str, Any] = {"before": ANYWAY} if reported else {}
        if but:
            rest = outcome is ruling.outcome
            which["only"] = images.c.index.not_in(but) if rest else images.c.index.in_(_at(but, outcome))
        each = Ruling(outcome=outcome, reason="" if outcome.shows and but else ruling.reason)
        changed += await rule_on(connection, review.job_id, each, now=now, **which)
    return list(dict.fromkeys(changed))


def _at(but: Mapping[int, Outcome], outcome: Outcome) -> list[int]:
    return [index for index, other in but.items() if other is outcome]
