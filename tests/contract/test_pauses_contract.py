"""Pauses: which jobs they hold, which go on, and their end, on every database."""

from __future__ import annotations

import asyncio
from typing import Any

from recipes import RECIPE, origin, recipe
from stores import TTL, OpenStore

from bot.domain.jobs import Claim, Job, State
from bot.store import Store
from bot.store.queue.seed_sequences import NextOf
from bot.store.rows.audit import By
from bot.store.rows.restrictions import Scope

HERE, CHANNEL, OTHER_CHANNEL, THREAD, ELSEWHERE = 21, 31, 32, 33, 22
MINA, RAVI, OMAR = 11, 12, 13
SERVER, IN_CHANNEL = Scope(guild_id=HERE), Scope(guild_id=HERE, channel_id=CHANNEL)
MODERATOR = By(actor_id=MINA, guild_id=HERE, reason="a moment")


async def ask(store: Store, number: int, *, variants: int = 1, **where: Any) -> Job:
    return await store.jobs.enqueue(recipe(variants=variants), origin(number, **where))


async def claim(store: Store, *, limit: int = 9, worker: str = "worker") -> list[Claim]:
    return await store.leases.claim(worker, limit=limit, ttl=TTL)


async def claimed(store: Store) -> list[str]:
    """Return the jobs of all claimable images; a claim over all lanes and claims by lane agree."""
    by_all = await claim(store)
    for each in by_all:
        await store.leases.give_back(each)
    by_lane = await store.leases.claim("worker", limit={RECIPE.lane: 9}, ttl=TTL)
    for each in by_lane:
        await store.leases.give_back(each)
    assert [each.job_id for each in by_all] == [each.job_id for each in by_lane]
    return [each.job_id for each in by_all]


async def test_a_request_in_a_pause_waits_for_its_end(store: Store) -> None:
    await store.moderation.pause(IN_CHANNEL, MODERATOR)
    job = await ask(store, 1)
    again = await store.jobs.enqueue(NextOf(job_id=job.id), origin(2))
    other = await ask(store, 3, channel_id=OTHER_CHANNEL, user_id=RAVI)
    assert await claimed(store) == [other.id]
    await store.moderation.resume(IN_CHANNEL, MODERATOR)
    assert set(await claimed(store)) == {job.id, again.id, other.id}


async def test_running_images_finish_and_the_others_of_their_job_wait(store: Store) -> None:
    job = await ask(store, 1, variants=3)
    first, second = await claim(store, limit=2)
    await store.moderation.pause(SERVER, MODERATOR)
    assert await store.leases.heartbeat({first: 3, second: 1}, ttl=TTL) == set()
    await store.leases.complete(first, artifact="aa/aa.png", seconds=1.0)
    await store.leases.give_back(second)
    assert await claimed(store) == []
    assert (await store.positions.of(job.id)).paused == "a moment"
    await store.moderation.resume(SERVER, MODERATOR)
    for each in await claim(store):
        await store.leases.complete(each, artifact="bb/bb.png", seconds=1.0)
    assert (await store.jobs.get(job.id)).state is State.DONE


async def test_with_two_pauses_both_must_end(store: Store) -> None:
    inside, outside = await ask(store, 1), await ask(store, 2, channel_id=OTHER_CHANNEL, user_id=RAVI)
    for scope in (IN_CHANNEL, SERVER):
        await store.moderation.pause(scope, MODERATOR)
    assert await claimed(store) == []
    await store.moderation.resume(SERVER, MODERATOR)
    assert await claimed(store) == [outside.id]
    await store.moderation.pause(SERVER, MODERATOR)
    await store.moderation.resume(IN_CHANNEL, MODERATOR)
    assert await claimed(store) == []
    await store.moderation.resume(SERVER, MODERATOR)
    assert set(await claimed(store)) == {inside.id, outside.id}


async def test_a_job_has_the_word_of_the_nearest_pause_and_is_not_counted_elsewhere(store: Store) -> None:
    paused = [await ask(store, number, user_id=number, variants=2) for number in range(1, 4)]
    free = await ask(store, 9, user_id=RAVI, guild_id=ELSEWHERE)
    last = await ask(store, 10, user_id=OMAR, guild_id=ELSEWHERE)
    assert (await store.positions.of(free.id)).place > 1
    await store.moderation.pause(SERVER, By(actor_id=MINA, guild_id=HERE))
    assert (await store.positions.of(paused[0].id)).paused == ""
    await store.moderation.pause(IN_CHANNEL, MODERATOR)
    found = await store.positions.of_all([*(job.id for job in paused), free.id, last.id])
    assert [found[job.id].paused for job in paused] == ["a moment"] * 3
    assert [found[job.id].place for job in paused] == [0] * 3
    assert [(found[job.id].place, found[job.id].ahead, found[job.id].paused) for job in (free, last)] == [
        (1, 0, None),
        (2, 1, None),
    ]
    await store.moderation.resume(IN_CHANNEL, MODERATOR)
    assert (await store.positions.of(paused[0].id)).paused == ""


async def test_a_pause_of_a_channel_holds_in_its_threads_and_one_of_a_thread_there_alone(
    store: Store,
) -> None:
    thread = {"channel_id": THREAD, "thread_parent_id": CHANNEL}
    inside, above = await ask(store, 1, **thread), await ask(store, 2, user_id=RAVI)
    elsewhere = await ask(store, 3, user_id=OMAR, channel_id=THREAD + 1, thread_parent_id=OTHER_CHANNEL)
    await store.moderation.pause(IN_CHANNEL, MODERATOR)
    late = await ask(store, 4, user_id=OMAR, **thread)
    assert await claimed(store) == [elsewhere.id]
    assert (await store.positions.of(inside.id)).paused == "a moment"
    own = Scope(guild_id=HERE, channel_id=THREAD)
    await store.moderation.pause(own, By(actor_id=MINA, guild_id=HERE, reason="the thread"))
    assert (await store.positions.of(inside.id)).paused == "the thread"
    await store.moderation.resume(IN_CHANNEL, MODERATOR)
    assert set(await claimed(store)) == {above.id, elsewhere.id}
    await store.moderation.resume(own, MODERATOR)
    assert set(await claimed(store)) == {inside.id, above.id, elsewhere.id, late.id}


async def test_jobs_in_a_pause_are_listed_after_all_others(store: Store) -> None:
    first = await ask(store, 1, variants=2)
    await claim(store, limit=1)
    paused = [await ask(store, number, user_id=number) for number in (2, 3)]
    await store.moderation.pause(SERVER, MODERATOR)
    free = await ask(store, 4, user_id=4, guild_id=ELSEWHERE)
    everything = [first.id, free.id, *(job.id for job in paused)]
    assert [job.id for job in await store.jobs.active()] == everything
    assert [job.id for job in await store.jobs.active(limit=3)] == everything[:3]
    assert [job.id for job in await store.jobs.active(paused=False)] == everything[:2]
    assert [job.id for job in await store.jobs.active(paused=True)] == everything[2:]
    assert [await store.jobs.count_active(before=job_id) for job_id in everything] == [0, 1, 2, 3]
    assert await store.jobs.count_active() == 4
    assert await store.jobs.count_active(guild_id=HERE, before=paused[1].id) == 2


async def test_a_job_can_be_cancelled_and_deleted_in_a_pause(store: Store) -> None:
    jobs = [await ask(store, number, user_id=RAVI) for number in (1, 2)]
    await store.moderation.pause(SERVER, MODERATOR)
    assert (await store.jobs.cancel(jobs[0].id, user_id=RAVI)).state is State.CANCELLED
    await store.deliveries.delete_result(jobs[1].id, user_id=None)
    await store.moderation.resume(SERVER, MODERATOR)
    assert await claimed(store) == []
    fresh = await ask(store, 3, user_id=RAVI)
    assert await claimed(store) == [fresh.id]


async def paint(store: Store, count: int) -> list[int]:
    """Paint `count` images one after the other; return their users."""
    owners = []
    for _ in range(count):
        (each,) = await claim(store, limit=1)
        job = await store.leases.complete(each, artifact="aa/aa.png", seconds=1.0)
        owners.append(job.origin.user_id)
    return owners


async def test_a_long_pause_earns_no_credit(store: Store) -> None:
    for number in range(1, 9):
        await ask(store, number, user_id=RAVI, variants=9)
    await store.moderation.pause(SERVER, MODERATOR)
    for number in range(11, 15):
        await ask(store, number, user_id=OMAR, guild_id=ELSEWHERE, variants=9)
    assert await paint(store, 30) == [OMAR] * 30
    await store.moderation.resume(SERVER, MODERATOR)
    await ask(store, 20, user_id=MINA, guild_id=ELSEWHERE, variants=4)
    owners = await paint(store, 12)
    assert {user_id: owners.count(user_id) for user_id in (RAVI, OMAR, MINA)} == {RAVI: 4, OMAR: 4, MINA: 4}


async def test_a_pause_gives_no_advantage_to_requests_in_it_or_elsewhere(store: Store) -> None:
    await store.moderation.pause(SERVER, MODERATOR)
    await ask(store, 1, user_id=RAVI, variants=9)
    await ask(store, 2, user_id=OMAR, guild_id=ELSEWHERE, variants=9)
    await paint(store, 9)
    await store.moderation.resume(SERVER, MODERATOR)
    await ask(store, 3, user_id=RAVI, guild_id=ELSEWHERE, variants=9)
    await ask(store, 4, user_id=OMAR, guild_id=ELSEWHERE, variants=9)
    owners = await paint(store, 18)
    assert owners.count(RAVI) == owners.count(OMAR) == 9


async def test_a_paused_poison_image_blocks_no_other_image(store: Store) -> None:
    jobs = [await ask(store, 1, user_id=RAVI), await ask(store, 2, user_id=OMAR, guild_id=ELSEWHERE)]
    await claim(store)
    await store.leases.recover("worker")
    await store.moderation.pause(SERVER, MODERATOR)
    assert [each.job_id for each in await claim(store)] == [jobs[1].id]


async def requests(store: Store, first: int) -> None:
    for number in range(first, first + 12):
        await ask(store, number, user_id=number)


async def toggles(store: Store) -> None:
    for _ in range(6):
        await store.moderation.pause(SERVER, MODERATOR)
        assert await store.moderation.resume(SERVER, MODERATOR) is not None
    await store.moderation.pause(SERVER, MODERATOR)


async def paints(store: Store) -> None:
    for _ in range(12):
        for each in await claim(store, limit=1):
            await store.leases.complete(each, artifact="aa/aa.png", seconds=1.0)


async def test_pauses_during_requests_lose_no_request_and_paint_none_early(
    store: Store, open_store: OpenStore
) -> None:
    second, third, fourth = [await open_store() for _ in range(3)]
    await asyncio.gather(requests(store, 100), requests(second, 200), toggles(third), paints(fourth))
    assert await claim(store) == []
    await store.moderation.resume(SERVER, MODERATOR)
    while await claim(store, limit=1):
        await store.leases.recover("worker")
        await paints(store)
    assert (await store.jobs.counts())[State.DONE] == 24
