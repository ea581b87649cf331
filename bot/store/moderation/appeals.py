"""Appeals: a person asks moderators to look again at a refused prompt or at pictures that were not shown.

A refusal is stored when it is said, and becomes an appeal once. If moderators accept the appeal of a prompt,
the prompt is painted as it was asked for, and its result is delivered like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.errors import NotYours, UnknownJob, UserMistake
from bot.domain.holds import Appeal, Cause, Hold, Outcome, Ruling
from bot.domain.jobs import Origin, Recipe, Showing
from bot.domain.outbox import Outgoing
from bot.domain.quotas import Charge
from bot.domain.time_units import DAY_SECONDS, HOUR_SECONDS
from bot.store.database.database import Verbs, count_of
from bot.store.moderation.holds import show_withheld, uphold
from bot.store.queue.jobs import Adding, job_of
from bot.store.rows.charges import NO_CHARGE
from bot.store.rows.jobs import load_job, origin_from, origin_json, recipe_from, recipe_values
from bot.store.rows.outbox import add
from bot.store.rows.reviews import (
    Kind,
    Review,
    open_review,
    readable_reviews,
    settings_of,
)
from bot.store.rows.sessions import wait_for_turn
from bot.store.rows.transitions import lock_job, renew_results
from bot.store.tables.queue import jobs
from bot.store.tables.reviews import reviews

APPEALS_A_DAY = 3  # of one person
REFUSALS_KEPT = 5  # of one person, the newest; no more of them can be appealed in a day
DUE, LEFT = "due", "left"  # answers to send, and answers to add to the person's next one
UNTOLD = (reviews.c.kind == Kind.APPEAL.value) & (reviews.c.answer == LEFT)
"""The condition for declined appeals of prompts whose persons could not be told yet."""


@dataclass(frozen=True, kw_only=True)
class Pressed:
    """A button that was pressed under a message; the token edits that message until it expires."""

    message_id: int
    token: str = field(repr=False)
    expires_at: float


class Appeals(Verbs):
    """The verbs of appeals."""

    async def note_refusal(
        self,
        recipe: Recipe,
        origin: Origin,
        *,
        rule: str,
        weight: float,
        places: int,
        hold: Hold | None = None,
        charge: Charge = NO_CHARGE,
    ) -> int:
        """Store a refused prompt for a day, so that its person can appeal, and return its id.

        Of one person only the newest `REFUSALS_KEPT` are stored, however many requests are refused.
        With `hold` the pictures of an accepted prompt are held for review. An accepted prompt counts `charge`
        against the quotas, even where they have no room for it.
        """
        now = self._clock()
        untold = replace(origin, interaction_token="", token_expires_at=0.0, message_id=None, front=None)
        request = {
            "recipe": recipe_values(recipe),
            "origin": origin_json(untold),
            "weight": weight,
            "places": places,
            "hold": None if hold is None else asdict(hold),
            "charge": {"pictures": charge.pictures, "cost": charge.cost},
        }
        whose = {"guild_id": origin.guild_id or 0, "user_id": origin.user_id}
        row: dict[str, Any] = {
            "due_at": now + DAY_SECONDS,
            "rule": rule,
            "request": request,
        }
        async with self._database.write() as connection:
            await wait_for_turn(connection, origin.user_id)  # of two refusals at once, one counts the other
            added = await open_review(connection, Kind.REFUSED, **whose, now=now, **row)
            theirs = (reviews.c.user_id == origin.user_id) & (reviews.c.kind == Kind.REFUSED.value)
            older = sa.select(reviews.c.id).where(theirs).order_by(reviews.c.id.desc()).offset(REFUSALS_KEPT)
            await connection.execute(sa.delete(reviews).where(reviews.c.id.in_(older)))
            return added

    async def appeal_refusal(self, review_id: int, user_id: int, *, words: str = "") -> None:
        """Let moderators look at a refused prompt, and read the person's `words`.

        Raises UserMistake: `appeal_over` where it was done or is too late, `appeals_full` above the limit.
        """
        now = self._clock()
        async with self._telling(results=True) as connection:
            await self._admit(connection, user_id, now=now)
            mine = (reviews.c.id == review_id) & (reviews.c.user_id == user_id)
            refused = mine & (reviews.c.kind == Kind.REFUSED.value)
            row = (await connection.execute(sa.select(reviews.c.guild_id).where(refused))).one_or_none()
            hours = (await settings_of(connection, row.guild_id)).hours if row else 0
            values = {"kind": Kind.APPEAL.value, "opened_at": now, "due_at": now + hours * HOUR_SECONDS}
            values |= {"words": words}
            made = sa.update(reviews).where(refused).values(values)
            if row is None or not (await connection.execute(made)).rowcount:
                raise UserMistake("appeal_over")
            await add(connection, Outgoing.REVIEW, review_id, now=now)

    async def appeal_pictures(
        self, job_id: str, user_id: int, pressed: Pressed | None = None, *, words: str = ""
    ) -> None:
        """Let moderators look again at pictures of a job that were withheld and are kept.

        They read the person's `words`. The result becomes due again if its message can be edited: by the bot
        itself, or with the token of the button that was `pressed`. Raises UnknownJob, NotYours, and
        UserMistake `appeal_over`, `appeals_full`.
        """
        now = self._clock()
        async with self._telling(results=True) as connection:
            await lock_job(connection, job_id)
            job = await load_job(connection, job_id)
            if job.deleted_at is not None:
                raise UnknownJob(job=job_id)
            if job.origin.user_id != user_id:
                raise NotYours(job=job_id)
            withheld = any(image.showing is Showing.WITHHOLD and image.held for image in job.images)
            if not withheld or job.appeal is not None or job.origin.guild_id is None:
                raise UserMistake("appeal_over")
            await self._admit(connection, user_id, now=now)
            rule = job.hold.rule if job.hold else ""
            whose = {"guild_id": job.origin.guild_id, "user_id": user_id}
            await open_review(
                connection, Kind.APPEAL, **whose, now=now, job_id=job_id, rule=rule, words=words
            )
            values: dict[str, Any] = {"appeal": Appeal.OPEN.value}
            by_bot = not (job.origin.private or job.origin.external) or job.message_channel_id is not None
            if own := pressed is not None and pressed.message_id == job.message_id:
                values |= {"interaction_token": pressed.token, "token_expires_at": pressed.expires_at}
            await connection.execute(sa.update(jobs).where(jobs.c.id == job_id).values(values))
            if own or by_bot:
                await renew_results(connection, [job_id], now=now)

    async def answers_left(self, user_id: int) -> list[Review]:
        """Return the declined prompts of which a person could not be told, and count them as told."""
        left = (reviews.c.user_id == user_id) & UNTOLD
        told = sa.update(reviews).where(left).values(answer=None).returning(*reviews.c)
        async with self._database.write() as connection:
            return readable_reviews(await connection.execute(told))

    async def _admit(self, connection: AsyncConnection, user_id: int, *, now: float) -> None:
        await wait_for_turn(connection, user_id)  # of two appeals at once, one counts the other
        mine = (reviews.c.user_id == user_id) & (reviews.c.kind == Kind.APPEAL.value)
        if (
            await count_of(connection, reviews, mine, reviews.c.opened_at > now - DAY_SECONDS)
            >= APPEALS_A_DAY
        ):
            raise UserMistake("appeals_full", limit=APPEALS_A_DAY)


async def end_appeal(connection: AsyncConnection, review: Review, ruling: Ruling, *, now: float) -> bool:
    """Carry out the decision on an appeal, which the caller closes; return whether workers may have work."""
    accepted = ruling.outcome.shows
    if review.job_id is not None:
        await _end_about_pictures(connection, review.job_id, ruling, now=now)
    elif accepted and review.request is not None:
        await _paint(connection, review.request, now=now)
        return True
    else:
        await connection.execute(sa.update(reviews).where(reviews.c.id == review.id).values(answer=DUE))
    return False


async def _end_about_pictures(
    connection: AsyncConnection, job_id: str, ruling: Ruling, *, now: float
) -> None:
    appeal = Appeal.EXPIRED if ruling.outcome is Outcome.EXPIRED else Appeal.DECLINED
    if ruling.outcome.shows:
        appeal = Appeal.ACCEPTED
    if appeal is Appeal.ACCEPTED:  # first: it locks other jobs too, in their order
        await show_withheld(connection, job_id, ruling, now=now)
    await lock_job(connection, job_id)
    ended = sa.update(jobs).where(jobs.c.id == job_id, jobs.c.deleted_at.is_(None))
    if not (await connection.execute(ended.values(appeal=appeal.value))).rowcount:
        return
    if appeal is Appeal.DECLINED:
        await uphold(connection, job_id, ruling.reason)
    await renew_results(connection, [job_id], now=now)


async def _paint(connection: AsyncConnection, request: Mapping[str, Any], *, now: float) -> None:
    """Store the job of a refused prompt, over the caps and quotas: moderators have asked for it."""
    recipe, origin = recipe_from(request["recipe"]), origin_from(request["origin"])
    await wait_for_turn(connection, origin.user_id)
    if await job_of(connection, origin.interaction_id) is None:
        share = {"weight": request["weight"], "places": request["places"], "room": None}
        said = request.get("hold")
        hold = None if said is None else Hold(cause=Cause(said["cause"]), rule=said["rule"])
        charge = Charge(**request["charge"])
        adding = Adding(wish=recipe, origin=origin, hold=hold, charge=charge, now=now, apart=True, **share)
        await adding.add(connection)
