"""Statistics of painted pictures by person, server and time, on every database."""

from __future__ import annotations

import asyncio

from recipes import origin, recipe
from stores import TTL, Clock

from bot.domain.jobs import Descent, Parent, Recipe
from bot.store import Store

ME, OTHER, HERE, THERE = 11, 12, 21, 22


async def painted(store: Store, clock: Clock, wanted: Recipe, number: int, **place: int) -> None:
    """Paint a job that waits for 10 s and takes 4 s for each picture."""
    await store.jobs.enqueue(wanted, origin(number, **place))
    clock.now += 10
    for _ in range(wanted.variants):
        (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
        clock.now += 4
        await store.leases.complete(claim, artifact=f"aa/{number}-{claim.image_id}.png", seconds=4.0)


async def test_pictures_requests_and_people_are_counted_since_a_time(store: Store, clock: Clock) -> None:
    await painted(store, clock, recipe(model="old"), 1, user_id=ME, guild_id=HERE)
    since = clock.now + 1
    clock.now += 100
    await painted(store, clock, recipe(variants=2, reference="bb/one.png"), 2, user_id=ME, guild_id=HERE)
    await painted(store, clock, recipe(model="b:c"), 3, user_id=OTHER, guild_id=HERE)
    await painted(store, clock, recipe(), 4, user_id=ME, guild_id=THERE)
    mine, ever = await store.statistics.painted(since=[since, 0], user_id=ME)
    assert (mine.models, mine.pictures, mine.requests, mine.people) == ({"demo": 3}, 3, 2, 1)
    [here] = await store.statistics.painted(since=[since], guild_id=HERE)
    assert (here.models, here.requests, here.people) == ({"demo": 2, "b:c": 1}, 2, 2)
    assert (here.waited, here.painted) == (10.0, 6.0)
    assert (ever.models, ever.pictures, ever.requests) == ({"old": 1, "demo": 3}, 4, 3)


async def test_statistics_of_a_person_without_jobs_are_zero(store: Store) -> None:
    [nothing] = await store.statistics.painted(since=[0], user_id=ME)
    assert (nothing.pictures, nothing.requests, nothing.waited, nothing.painted) == (0, 0, None, None)


async def test_cancelled_requests_and_copies_do_not_count(store: Store, clock: Clock) -> None:
    await painted(store, clock, recipe(), 1, user_id=ME, guild_id=HERE)
    (job,) = await store.jobs.history(ME, limit=9)
    parent = Parent(job_id=job.id, descent=Descent.SINGLE, index=0)
    await store.jobs.copy(job.id, origin(2, user_id=ME, guild_id=HERE, parent=parent), index=0)
    gone = await store.jobs.enqueue(recipe(), origin(3, user_id=ME, guild_id=HERE))
    await store.jobs.cancel(gone.id, user_id=None)
    [mine] = await store.statistics.painted(since=[0], user_id=ME)
    assert (mine.requests, mine.pictures) == (1, 1)


async def test_long_reads_leave_connections_to_all_others(store: Store) -> None:
    job = await store.jobs.enqueue(recipe(), origin(1))
    begun, done = asyncio.Event(), asyncio.Event()

    async def read_much() -> None:
        async with store.shared.database.read(much=True):
            begun.set()
            await done.wait()

    async with asyncio.timeout(5), asyncio.TaskGroup() as reads:
        for _ in range(40):  # more than there are connections
            reads.create_task(read_much())
        await begun.wait()
        await store.jobs.set_message(job.id, 5)
        assert (await store.jobs.get(job.id)).message_id == 5
        done.set()
