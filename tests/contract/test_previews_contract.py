"""Previews of images that are being painted, on every database."""

from __future__ import annotations

from recipes import ORIGIN, recipe
from stores import TTL, Clock

from bot.store import Store

FIRST, SECOND = b"RIFF\x00first", b"RIFF\xffsecond"


async def test_the_newest_preview_of_each_image_is_kept_until_the_job_ends(store: Store) -> None:
    job = await store.jobs.enqueue(recipe(variants=2), ORIGIN)
    one, other = await store.leases.claim("worker", limit=2, ttl=TTL)
    assert await store.previews.of(job.id) == {}
    await store.leases.heartbeat({one: 1, other: 1}, ttl=TTL, previews={one: FIRST, other: FIRST})
    await store.leases.heartbeat({one: 2, other: 2}, ttl=TTL, previews={other: SECOND})
    assert await store.previews.of(job.id) == {0: FIRST, 1: SECOND}
    await store.leases.complete(one, artifact="aa/aa.png", seconds=1.0)
    assert await store.previews.of(job.id) == {0: FIRST, 1: SECOND}
    await store.leases.fail(other, failure="painting_failed")
    assert await store.previews.of(job.id) == {}


async def test_a_worker_that_lost_its_lease_stores_no_preview(store: Store, clock: Clock) -> None:
    job = await store.jobs.enqueue(recipe(), ORIGIN)
    (late,) = await store.leases.claim("late", limit=1, ttl=TTL)
    clock.now += TTL
    await store.leases.expire()
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    await store.leases.heartbeat({claim: 1}, ttl=TTL, previews={claim: FIRST})
    assert await store.leases.heartbeat({late: 9}, ttl=TTL, previews={late: SECOND}) == {late.image_id}
    assert await store.previews.of(job.id) == {0: FIRST}


async def test_the_previews_of_a_cancelled_job_are_deleted_and_a_late_heartbeat_stores_none(
    store: Store,
) -> None:
    job = await store.jobs.enqueue(recipe(), ORIGIN)
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    await store.leases.heartbeat({claim: 1}, ttl=TTL, previews={claim: FIRST})
    await store.jobs.cancel(job.id, user_id=ORIGIN.user_id)
    await store.leases.heartbeat({claim: 2}, ttl=TTL, previews={claim: SECOND})
    assert await store.previews.of(job.id) == {}


async def test_a_position_includes_the_batch_of_its_lane(store: Store) -> None:
    job = await store.jobs.enqueue(recipe(variants=3), ORIGIN)
    told = await store.positions.of(job.id)
    assert (told.seats, told.taken) == (0, 0)
    await store.offers.announce("worker", lanes=[job.recipe.lane], seats=2, ttl=TTL)
    await store.leases.claim("worker", limit=3, ttl=TTL)
    told = await store.positions.of(job.id)
    assert (told.seats, told.taken) == (2, 2)
