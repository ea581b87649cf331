"""When results are due, what an attempt leaves behind, and what a deletion ends."""

from typing import Any

import pytest
import sqlalchemy as sa
from recipes import ORIGIN, RECIPE, origin, recipe
from stores import TTL, Clock, undelivered

from bot.domain.jobs import Delivery, Job
from bot.store import Store
from bot.store.queue.deliveries import DELETED
from bot.store.rows.outbox import FURTHEST_RETRY
from bot.store.tables.outbox import outbox
from bot.store.tables.queue import images, start_pictures


async def finished(store: Store, number: int, **values: Any) -> Job:
    """A job of one picture that has been painted, and whose file is named by its number."""
    await store.jobs.enqueue(RECIPE, origin(number, **{"user_id": number, **values}))
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    return await store.leases.complete(claim, artifact=f"aa/{number}.png", seconds=1.0)


async def claim_one(store: Store, front: str = "front") -> Delivery:
    (delivery,) = await store.deliveries.claim(front, limit=9)
    return delivery


async def row_of(store: Store, job: Job) -> Any:
    async with store.shared.database.read() as connection:
        found = await connection.execute(sa.select(outbox).where(outbox.c.job_id == job.id))
        return found.one()


async def test_the_longest_due_are_claimed_first_and_no_more_than_wanted(store: Store, clock: Clock) -> None:
    jobs = []
    for number in range(3):
        clock.now += 1
        jobs.append(await finished(store, number))
    assert await store.deliveries.claim("front", limit=9, held=[]) != []
    clock.now += 1
    found = await store.deliveries.claim("front", limit=2)
    assert [delivery.job.id for delivery in found] == [job.id for job in jobs[:2]]
    assert {delivery.job.origin.front for delivery in found} == {"front"}
    assert await store.deliveries.claim("other", limit=9) == []


async def test_each_claim_raises_the_token_and_an_older_claim_notes_an_unknown_message_alone(
    store: Store, clock: Clock
) -> None:
    job = await finished(store, 1)
    old, new = await claim_one(store), await claim_one(store)
    assert (old.fencing_token, new.fencing_token) == (1, 2)
    await store.deliveries.retry(old, at=clock.now + 10)
    assert await store.deliveries.mark_delivered(old, outcome="late", message_id=5)
    assert (await row_of(store, job)).attempts == 0
    assert (await store.jobs.get(job.id)).message_id == 5
    assert await store.deliveries.mark_delivered(new, outcome="delivered", message_id=6, channel_id=None)
    row = await row_of(store, job)
    assert (row.outcome, row.settled_at, row.attempts) == ("delivered", clock.now, 1)
    known = await store.jobs.get(job.id)
    assert (known.message_id, known.message_channel_id) == (6, None)


async def test_the_retry_time_is_kept_and_one_beyond_the_longest_pause_is_due(
    store: Store, clock: Clock
) -> None:
    job = await finished(store, 1)
    await store.deliveries.retry(await claim_one(store), at=clock.now + FURTHEST_RETRY)
    assert (await row_of(store, job)).next_try_at == clock.now + FURTHEST_RETRY
    assert await store.deliveries.claim("front", limit=9) == []
    clock.now += FURTHEST_RETRY
    await store.deliveries.retry(await claim_one(store), at=clock.now + FURTHEST_RETRY + 1)
    assert (await claim_one(store)).attempts == 2
    (due,) = await undelivered(store, limit=1)
    assert (due.attempts, due.fencing_token) == (2, 3)


async def test_marking_says_whether_the_person_still_wants_the_result_and_notes_its_message(
    store: Store,
) -> None:
    job = await finished(store, 1)
    delivery = await claim_one(store)
    await store.deliveries.delete_result(job.id, user_id=1)
    assert not await store.deliveries.mark_delivered(delivery, outcome="delivered", message_id=9)
    assert (await store.jobs.get(job.id)).message_id == 9


async def test_a_deletion_settles_its_own_delivery_at_its_time(store: Store, clock: Clock) -> None:
    gone, kept = await finished(store, 1), await finished(store, 2)
    clock.now += 5
    assert await store.deliveries.delete_result(gone.id, user_id=1) == ["aa/1.png"]
    row = await row_of(store, gone)
    assert (row.outcome, row.settled_at) == (DELETED, clock.now)
    assert (await row_of(store, kept)).outcome is None
    assert (await store.jobs.get(kept.id)).images[0].artifact == "aa/2.png"
    deleted_at, clock.now = clock.now, clock.now + 5
    assert await store.deliveries.delete_result(gone.id, user_id=1) == []
    assert (await store.jobs.get(gone.id)).deleted_at == deleted_at


async def test_what_was_delivered_stays_delivered_when_the_result_is_deleted(
    store: Store, clock: Clock
) -> None:
    job = await finished(store, 1)
    await store.deliveries.mark_delivered(await claim_one(store), outcome="delivered", message_id=9)
    then = clock.now
    clock.now += 5
    await store.deliveries.delete_result(job.id, user_id=None)
    row = await row_of(store, job)
    assert (row.outcome, row.settled_at) == ("delivered", then)


async def test_a_deletion_ends_only_its_own_start_pictures(store: Store) -> None:
    started = recipe(init_image="cc/cc.png", strength=0.5)
    one = await store.jobs.enqueue(started, ORIGIN)
    other = await store.jobs.enqueue(started, origin(2, user_id=2))
    assert await store.deliveries.delete_result(one.id, user_id=None) == []
    async with store.shared.database.read() as connection:
        assert list(await connection.scalars(sa.select(start_pictures.c.job_id))) == [other.id]
        paused = await connection.scalars(sa.select(images.c.artifact).where(images.c.job_id == other.id))
        assert list(paused) == [None]


@pytest.mark.parametrize("front", ["front", None])
async def test_a_front_takes_jobs_without_one_and_leaves_others(store: Store, front: str | None) -> None:
    job = await store.jobs.enqueue(RECIPE, origin(1, front=front))
    taken = await store.deliveries.adopt("another", [job.id])
    assert taken == (set() if front else {job.id})
    assert (await store.jobs.get(job.id)).origin.front == (front or "another")
    assert await store.deliveries.adopt("another", []) == set()
