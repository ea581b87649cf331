"""Invariants under concurrent verbs, on every database."""

import asyncio
import itertools
import random
from collections.abc import Awaitable

import pytest
import sqlalchemy as sa
from recipes import RECIPE, origin, recipe
from stores import TTL, OpenStore, undelivered

from bot.domain.errors import StaleLease, UserMistake
from bot.domain.jobs import Job, State
from bot.domain.quotas import Caps
from bot.store import Store
from bot.store.tables.outbox import outbox

EXPECTED = (StaleLease, UserMistake)
ROUNDS = 5


async def all_at_once(*calls: Awaitable[object]) -> list[object]:
    """Return what each call returned, or the error of EXPECTED that it raised; raise any other error."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, EXPECTED):
            raise result
    return list(results)


async def test_caps_hold_for_simultaneous_requests(store: Store, open_store: OpenStore) -> None:
    caps, stores = Caps(waiting_per_user=2, waiting=3), [store, await open_store()]
    for number, (user_id, accepted) in enumerate([(1, 2), (2, 1), (3, 0)]):
        results = await all_at_once(
            *(
                stores[call % 2].jobs.enqueue(RECIPE, origin(10 * number + call, user_id=user_id), caps=caps)
                for call in range(6)
            )
        )
        assert sum(isinstance(result, Job) for result in results) == accepted


@pytest.mark.parametrize("caps", [Caps(waiting=3), Caps(waiting_per_server=3)])
async def test_caps_hold_for_simultaneous_requests_of_many_people(
    store: Store, open_store: OpenStore, caps: Caps
) -> None:
    stores = [store, await open_store()]
    results = await all_at_once(
        *(stores[user % 2].jobs.enqueue(RECIPE, origin(user, user_id=user), caps=caps) for user in range(8))
    )
    assert sum(isinstance(result, Job) for result in results) == 3


async def test_results_may_be_delivered_and_deleted_at_once(store: Store, open_store: OpenStore) -> None:
    other = await open_store()
    for number in range(12):
        job = await store.jobs.enqueue(RECIPE, origin(number))
        await store.jobs.cancel(job.id, user_id=None)
    calls: list[Awaitable[object]] = []
    for delivery in await undelivered(store, limit=12):
        calls.append(store.deliveries.mark_delivered(delivery, outcome="delivered", message_id=5))
        calls.append(other.deliveries.delete_result(delivery.job.id, user_id=None))
    await all_at_once(*calls)
    assert await undelivered(store, limit=12) == []


async def test_no_job_gets_stuck_under_load_and_every_job_ends_once(
    store: Store, open_store: OpenStore
) -> None:
    stores = [store, await open_store(), await open_store()]
    people = [person(one, number) for number, one in enumerate(stores * 2)]
    workers = [worker(one, f"worker-{number}") for number, one in enumerate(stores)]
    async with asyncio.timeout(120):
        await asyncio.gather(*people, *workers, deliver(store))
        await finish(store)
    counts = await store.jobs.counts()
    assert counts[State.WAITING] == counts[State.RUNNING] == 0
    async with store.shared.database.read() as connection:
        results = await connection.scalar(sa.select(sa.func.count()).select_from(outbox))
    assert results == sum(counts.values()) == len(people) * ROUNDS


async def person(store: Store, number: int) -> None:
    """Enqueue and read, and sometimes cancel or delete."""
    chance = random.Random(number)
    for turn in range(ROUNDS):
        asked = origin(100 * number + turn, user_id=number % 3)
        job = await store.jobs.enqueue(recipe(variants=chance.randint(1, 4)), asked, caps=Caps(waiting=999))
        await store.positions.of(job.id)
        regret = chance.choice([store.jobs.cancel, store.deliveries.delete_result, None])
        if regret is not None:
            await regret(job.id, user_id=None)


async def worker(store: Store, name: str) -> None:
    """Claim and renew leases, complete most of them, and lose the others."""
    verbs = itertools.cycle(
        [
            lambda claim: store.leases.complete(claim, artifact="aa/aa.png", seconds=1.0),
            lambda claim: store.leases.fail(claim, failure="nan"),
            store.leases.give_back,
        ]
    )
    for turn in range(2 * ROUNDS):
        await store.offers.announce(name, lanes=[RECIPE.lane], seats=4, ttl=TTL)
        claims = await store.leases.claim(name, limit=4, ttl=TTL)
        await store.leases.heartbeat(dict.fromkeys(claims, 1), ttl=TTL)
        ends = [next(verbs)(claim) for claim in claims[1:]]
        await all_at_once(store.leases.heartbeat(dict.fromkeys(claims, 2), ttl=TTL), *ends)
        await store.leases.recover(name)
        await store.leases.expire()
        await store.offers.fail_unoffered(grace=-TTL if turn % 4 == 3 else TTL)  # with -TTL, of every lane


async def deliver(store: Store) -> None:
    """Mark due results as delivered, three at a time, in a fixed number of turns."""
    for _ in range(2 * ROUNDS):
        for delivery in await undelivered(store, limit=3):
            await store.deliveries.mark_delivered(delivery, outcome="delivered", message_id=5)


async def finish(store: Store) -> None:
    """Paint the remaining images."""
    while claims := await store.leases.claim("last", limit=50, ttl=TTL):
        for claim in claims:
            await store.leases.complete(claim, artifact="aa/aa.png", seconds=1.0)
