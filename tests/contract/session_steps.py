"""The steps of a group session that several tests of the store take."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from recipes import ORIGIN, RECIPE
from stores import TTL, Clock

from bot.domain.errors import UserMistake
from bot.domain.holds import Outcome
from bot.domain.jobs import Job, Origin, Showing
from bot.store import Store
from bot.store.rows.audit import By
from bot.store.rows.sessions import GroupSession, Plan

HERE, CHANNEL, MINA = 21, 31, 1
ROUND, VOTE, HOURS = 600.0, 300.0, 3 * 3600.0
BY = By(actor_id=MINA, guild_id=HERE)
PLAN = Plan(theme="at night", quota=3, round_seconds=ROUND, vote_seconds=VOTE, session_seconds=HOURS)


async def opened(store: Store, **changed: Any) -> GroupSession:
    return await store.sessions.open(replace(PLAN, **changed), BY, channel_id=CHANNEL, locale="en-US")


def asks(number: int, user_id: int = 11, **changed: Any) -> Origin:
    return replace(ORIGIN, interaction_id=number, user_id=user_id, **changed)


async def ask(store: Store, session: GroupSession, number: int, user_id: int = 11, count: int = 1) -> Job:
    recipe = replace(RECIPE, variants=count)
    return await store.jobs.enqueue(recipe, asks(number, user_id), session_id=session.id)


async def act_once(store: Store) -> int:
    """Act on the timers that are due now; return the number of timers acted on."""
    return sum([await store.sessions.act(*timer) for timer in await store.sessions.overdue()])


async def act(store: Store) -> None:
    while await act_once(store):
        pass


async def voting(store: Store, clock: Clock, **changed: Any) -> GroupSession:
    """A session in the vote of its first round, in which persons 11 and 12 have painted a picture each."""
    session = await opened(store, **changed)
    for number, user_id in enumerate((11, 12), start=1):
        await ask(store, session, number, user_id)
    await finish(store, count=2)
    clock.now += ROUND
    await act(store)
    return await store.sessions.get(session.id)


async def finish(store: Store, *, count: int) -> None:
    """Paint the next `count` images."""
    for claim in await store.leases.claim("worker", limit=count, ttl=TTL):
        await store.leases.complete(claim, artifact=f"aa/{claim.image_id}.png", seconds=1.0)


async def refused(verb: Any) -> str:
    with pytest.raises(UserMistake) as error:
        await verb
    return error.value.message_id


async def held(store: Store, session: GroupSession, number: int) -> Job:
    """A picture that is painted and held for review."""
    await ask(store, session, number)
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    artifact = f"aa/{claim.image_id}.png"
    return await store.leases.complete(claim, artifact=artifact, seconds=1.0, showing=Showing.HOLD)


async def approve(store: Store, job: Job) -> None:
    (review,) = [each for each in await store.reviews.waiting(HERE, limit=9) if each.job_id == job.id]
    await store.reviews.decide(review.id, Outcome.SHOWN, BY)
