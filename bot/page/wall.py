"""The wall: what waits for moderators, and one case with all that a decision needs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from bot.delivery.review_message import file_in_question, given_in, given_name
from bot.domain.errors import UserMistake
from bot.domain.hashes import SEARCH_DISTANCE
from bot.domain.holds import Outcome
from bot.domain.jobs import ImageRecord
from bot.domain.time_units import DAY_SECONDS
from bot.page.guard import number_of
from bot.page.house import House
from bot.store.moderation.known import Match
from bot.store.moderation.review_messages import Case
from bot.store.rows.jobs import origin_from, recipe_from
from bot.store.rows.reviews import Kind, Review

SHOWN = 50
UNDO_SECONDS = 60.0
UNDONE = (Outcome.SHOWN, Outcome.SPOILER, Outcome.REJECTED)
SEARCHED, SIMILAR = 4, 6
"""How many pictures of a case similar ones are looked for of, and how many of these are shown."""
RECORD_DAYS = 30
TROUBLES = frozenset(
    {"review_over", "review_own", "review_claimed", "no_picture", "block_self", "block_moderator"}
)


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Whose a case is: `mine`, another moderator's (`other`), or nobody's (`free`).

    Nobody has a claim on their `own` pictures, and on what is `over`.
    """

    name: str
    until: float | None = None


async def read(house: House, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the reviews that wait in a server, the oldest first."""
    guild_id = await server_of(house, query)
    found = await house.store.reviews.waiting(guild_id, limit=SHOWN + 1) if guild_id else []
    return {
        "reviews": [(each, _standing(each, query, house.now)) for each in found[:SHOWN]],
        "more": len(found) > SHOWN,
        "undo": await _undoable(house, query),
        "trouble": _trouble(query),
        "guild_id": guild_id,
    }


async def server_of(house: House, query: Mapping[str, str]) -> int | None:
    """Return the server that is looked at; for an operator who names none, the one of the urgent review."""
    return number_of(query.get("server", "")) or await house.store.review_claims.urgent_server()


async def read_case(house: House, query: Mapping[str, str]) -> dict[str, Any]:
    """Return a case with the person's record and similar pictures; raises HTTPNotFound."""
    case = await _case(house, query)
    review, store, now = case.review, house.store, house.now
    since = now - RECORD_DAYS * DAY_SECONDS
    record, restrictions, requests, similar, undo = await asyncio.gather(
        store.review_claims.record(review.guild_id, review.user_id),
        store.moderation.of_person(review.user_id),
        store.jobs.count_recent(review.user_id, guild_id=review.guild_id, since=since),
        _similar(house, case),
        _undoable(house, query),
    )
    asked = review.request or {}
    return {
        "case": case,
        "review": review,
        "standing": _standing(review, query, now),
        "recipe": case.job.recipe if case.job else recipe_from(asked["recipe"]) if asked else None,
        "origin": case.job.origin if case.job else origin_from(asked["origin"]) if asked else None,
        "tiles": tiles(case),
        "given": list(given_in(case)),
        "given_name": given_name,
        "record": record,
        "blocks": [each for each in restrictions if each.scope.guild_id in (0, review.guild_id)],
        "requests": requests,
        "days": RECORD_DAYS,
        "similar": similar,
        "undo": undo,
        "trouble": _trouble(query),
    }


async def read_strip(house: House, query: Mapping[str, str]) -> dict[str, Any]:
    """Return whose a case is now; raises HTTPNotFound."""
    review = (await _case(house, query)).review
    return {"review": review, "standing": _standing(review, query, house.now)}


def tiles(case: Case) -> list[ImageRecord]:
    """Return the pictures that a case is about."""
    images = case.job.images if case.job else ()
    return [image for image in images if file_in_question(image, case.review.kind) is not None]


async def _case(house: House, query: Mapping[str, str]) -> Case:
    number = number_of(query["review"]) or 0
    try:
        return await house.store.review_messages.case(number, number_of(query.get("server", "")))
    except UserMistake:
        raise web.HTTPNotFound from None


def _standing(review: Review, query: Mapping[str, str], now: float) -> Standing:
    viewer = int(query.get("viewer", "0"))
    if review.outcome is not None:
        return Standing(name="over")
    if review.user_id == viewer and not query.get("owns"):
        return Standing(name="own")
    if review.claimed_until is None or review.claimed_until <= now:
        return Standing(name="free")
    return Standing(name="mine" if review.claimed_by == viewer else "other", until=review.claimed_until)


async def _similar(house: House, case: Case) -> list[Match]:
    """Return pictures of the server that look like those of a case, the most similar first."""
    if case.job is None or case.review.kind is Kind.APPEAL:
        return []
    guild_id, known = case.review.guild_id, house.store.known
    asked = {image.index for image in tiles(case)}
    own = [each for each in await known.of_job(guild_id, case.job.id) if each.index in asked]
    near: dict[tuple[str, int], Match] = {}
    for each in own[:SEARCHED]:
        for match in await known.whose(guild_id, each.hash, limit=SIMILAR + len(own)):
            key = match.job.id, match.index
            if match.job.id != case.job.id and not (key in near and near[key].distance <= match.distance):
                near[key] = match
    found = [each for each in near.values() if each.distance <= SEARCH_DISTANCE and not each.is_given]
    return sorted(found, key=lambda each: each.distance)[:SIMILAR]


async def _undoable(house: House, query: Mapping[str, str]) -> Review | None:
    """Return the viewer's last decision if its pictures can be held again."""
    if not (number := number_of(query.get("last", ""))):
        return None
    try:
        review = await house.store.reviews.get(number, number_of(query.get("server", "")))
    except UserMistake:
        return None
    theirs = may_undo(review, int(query.get("viewer", "0")), house.now)
    return review if theirs and await house.store.reviews.is_last(review) else None


def may_undo(review: Review, viewer: int, now: float) -> bool:
    """Return whether a person may hold the pictures again about which they have decided a moment ago."""
    decided = review.outcome in UNDONE and review.kind is not Kind.APPEAL
    lately = review.decided_at is not None and now - review.decided_at < UNDO_SECONDS
    return decided and lately and review.decided_by == viewer and review.job_id is not None


def _trouble(query: Mapping[str, str]) -> UserMistake | None:
    trouble = query.get("trouble", "")
    return UserMistake(trouble) if trouble in TROUBLES else None
