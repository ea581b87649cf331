"""The rows of reviews as plain data, and the statements that open and close them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.holds import Outcome
from bot.domain.jobs import Showing
from bot.domain.outbox import Outgoing
from bot.domain.time_units import HOUR_SECONDS
from bot.store.rows.jobs import UNREADABLE, recipe_from, tell_unreadable
from bot.store.rows.outbox import add, renew
from bot.store.tables.queue import images, jobs
from bot.store.tables.reviews import reports, review_settings, reviews

HOURS, REPORTS = 72, 3


class Kind(StrEnum):
    """The kind of a review: held pictures, reported ones, an appeal; or a refusal without an appeal."""

    HOLD = "hold"
    REPORT = "report"
    APPEAL = "appeal"
    REFUSED = "refused"


@dataclass(frozen=True, kw_only=True)
class ReviewSettings:
    """How a server reviews.

    `channel_id` is the moderators' channel, None before one is chosen. A review that waits longer than
    `hours` expires. Pictures with so many `reports` are hidden.
    """

    channel_id: int | None = None
    hours: int = HOURS
    reports: int = REPORTS


@dataclass(frozen=True, kw_only=True)
class Review:
    """Something that moderators decide, or have decided.

    `job_id` is None for a refused prompt, whose recipe is in `request`. Times are in seconds since the epoch.
    `words` are the person's own, with an appeal. `trouble` is why the moderators' message cannot be sent,
    empty without trouble. `claimed_by` looks at it until `claimed_until`.
    """

    id: int
    kind: Kind
    guild_id: int
    job_id: str | None
    user_id: int
    rule: str
    words: str
    request: Mapping[str, Any] | None
    opened_at: float
    due_at: float
    outcome: Outcome | None
    decided_at: float | None
    decided_by: int | None
    reason: str
    channel_id: int | None
    message_id: int | None
    trouble: str
    claimed_by: int | None = None
    claimed_until: float | None = None


def review_of(row: Any) -> Review:
    """Return the row as plain data; raises one of UNREADABLE."""
    values = {name: row._mapping[reviews.c[name]] for name in Review.__dataclass_fields__}
    outcome = values["outcome"]
    if values["request"] is not None:
        recipe_from(values["request"]["recipe"])
    return Review(
        **{**values, "kind": Kind(values["kind"]), "outcome": None if outcome is None else Outcome(outcome)}
    )


def readable_reviews(rows: Iterable[Any]) -> list[Review]:
    """Return the rows as plain data; rows that this version cannot read are left out, and logged once."""
    found = []
    for row in rows:
        try:
            found.append(review_of(row))
        except UNREADABLE as error:
            tell_unreadable("review", row.id, str(error))
    return found


async def settings_of(connection: AsyncConnection, guild_id: int) -> ReviewSettings:
    """Return the review settings of a server; the defaults where it has chosen nothing."""
    look = sa.select(review_settings).where(review_settings.c.guild_id == guild_id)
    row = (await connection.execute(look)).one_or_none()
    if row is None:
        return ReviewSettings()
    return ReviewSettings(channel_id=row.channel_id, hours=row.hours, reports=row.reports)


async def open_review(
    connection: AsyncConnection, kind: Kind, *, guild_id: int, user_id: int, now: float, **values: Any
) -> int:
    """Add a review, and return its id; its message is due at once, but for a refusal."""
    hours = (await settings_of(connection, guild_id)).hours
    row = {"kind": kind.value, "guild_id": guild_id, "user_id": user_id, "opened_at": now}
    row |= {"due_at": now + hours * HOUR_SECONDS, **values}
    made: int = (
        await connection.execute(sa.insert(reviews).values(row).returning(reviews.c.id))
    ).scalar_one()
    if kind is not Kind.REFUSED:
        await add(connection, Outgoing.REVIEW, made, now=now)
    return made


async def open_for_held(connection: AsyncConnection, job_id: str, *, now: float) -> None:
    """Add the review of a locked job that holds pictures, unless one is open."""
    held = (images.c.job_id == job_id) & (images.c.showing == Showing.HOLD) & images.c.artifact.is_not(None)
    if await connection.scalar(sa.select(images.c.id).where(held).limit(1)) is None:
        return
    waiting = sa.select(reviews.c.id).where(waits(), reviews.c.job_id == job_id, about_pictures())
    if await connection.scalar(waiting.limit(1)) is not None:
        return
    columns = jobs.c.guild_id, jobs.c.user_id, jobs.c.hold_rule
    row = (await connection.execute(sa.select(*columns).where(jobs.c.id == job_id))).one()
    whose = {"guild_id": row.guild_id or 0, "user_id": row.user_id}
    await open_review(connection, Kind.HOLD, **whose, now=now, job_id=job_id, rule=row.hold_rule)


def waits() -> sa.ColumnElement[bool]:
    """Return the condition for reviews that nobody has decided."""
    return reviews.c.outcome.is_(None) & (reviews.c.kind != Kind.REFUSED.value)


def about_pictures() -> sa.ColumnElement[bool]:
    """Return the condition for reviews of pictures that are held or reported."""
    return reviews.c.kind.in_([Kind.HOLD.value, Kind.REPORT.value])


async def close(
    connection: AsyncConnection, which: sa.ColumnElement[bool], outcome: Outcome, *, now: float, **values: Any
) -> list[Any]:
    """End those reviews of `which` that wait, and return their rows; their messages become due."""
    ended = {"outcome": outcome.value, "decided_at": now, "claimed_by": None, "claimed_until": None, **values}
    closing = sa.update(reviews).where(which, waits()).values(ended).returning(*reviews.c)
    rows = list(await connection.execute(closing))
    await renew(connection, Outgoing.REVIEW, [row.id for row in rows], now=now)
    return rows


async def is_followed(connection: AsyncConnection, review: Review) -> bool:
    """Return whether a decision about the pictures of a decided review is later, or an appeal waits.

    The same pictures in other requests of the server count too.
    """
    others = images.alias()
    same = sa.select(others.c.job_id).join(images, images.c.artifact == others.c.artifact)
    # With the server as a condition, SQLite might read all reviews of the server.
    later = sa.select(reviews.c.guild_id).where(
        reviews.c.job_id.in_(same.where(images.c.job_id == review.job_id)),
        (reviews.c.decided_at > review.decided_at) | (waits() & (reviews.c.kind == Kind.APPEAL.value)),
    )
    return review.guild_id in set(await connection.scalars(later))


async def withdraw(connection: AsyncConnection, job_ids: Collection[str], *, now: float) -> None:
    """End the reviews of deleted jobs; all their messages become due, without the pictures and the words."""
    mine = reviews.c.job_id.in_(job_ids)
    await close(connection, mine, Outcome.WITHDRAWN, now=now)
    await connection.execute(sa.update(reviews).where(mine, reviews.c.words != "").values(words=""))
    for other in await _sharing(connection, job_ids):
        await open_for_held(connection, other, now=now)
    decided = sa.update(reviews).where(mine, reviews.c.message_id.is_not(None)).values(reason="")
    await _changed(connection, decided, now=now)


async def erase_from_reviews(connection: AsyncConnection, user_id: int, number: int, *, now: float) -> None:
    """Delete a person's refused prompts and reports, and replace the person by `number` in reviews.

    The messages that show words of the person become due.
    """
    theirs = reviews.c.user_id == user_id
    refused = reviews.c.kind == Kind.REFUSED.value
    await connection.execute(sa.delete(reviews).where(theirs, refused))
    await close(connection, theirs, Outcome.WITHDRAWN, now=now)
    silent = {"user_id": number, "request": sa.null(), "words": "", "reason": "", "answer": None}
    await _changed(connection, sa.update(reviews).where(theirs).values(silent), now=now)
    seen = waits() | reviews.c.message_id.is_not(None)
    reported = sa.select(reports.c.job_id).where(reports.c.user_id == user_id)
    quoting = sa.select(reviews.c.id).where(reviews.c.job_id.in_(reported), seen)
    await renew(connection, Outgoing.REVIEW, quoting, now=now)
    await connection.execute(sa.delete(reports).where(reports.c.user_id == user_id))
    claimed = sa.update(reviews).where(reviews.c.claimed_by == user_id)
    await connection.execute(claimed.values(claimed_by=None, claimed_until=None))
    decided = reviews.c.decided_by == user_id
    appealed = reviews.c.job_id.in_(sa.select(reviews.c.job_id).where(decided))
    naming = sa.select(reviews.c.id).where(appealed, reviews.c.kind == Kind.APPEAL.value, seen)
    await renew(connection, Outgoing.REVIEW, naming, now=now)
    await _changed(connection, sa.update(reviews).where(decided).values(decided_by=number), now=now)


async def _changed(connection: AsyncConnection, changing: sa.Update, *, now: float) -> None:
    """Change reviews; their messages become due."""
    changed = await connection.scalars(changing.returning(reviews.c.id))
    await renew(connection, Outgoing.REVIEW, list(changed), now=now)


async def _sharing(connection: AsyncConnection, job_ids: Collection[str]) -> list[str]:
    """Return the other jobs in which pictures of these jobs are held."""
    others = images.alias()
    same = (images.c.artifact == others.c.artifact) & (others.c.showing == Showing.HOLD)
    look = sa.select(others.c.job_id).distinct().join(images, same).where(images.c.job_id.in_(job_ids))
    return list(await connection.scalars(look.where(others.c.job_id.not_in(job_ids))))
