"""When leases end, and what the queue remembers of a lease's images."""

from recipes import ORIGIN, RECIPE, recipe
from stores import TTL, Clock

from bot.domain.jobs import Claim
from bot.store import Store
from bot.store.queue.leases import FURTHEST_LEASE


async def claim_one(store: Store, *, ttl: float = TTL) -> Claim:
    (claim,) = await store.leases.claim("worker", limit=1, ttl=ttl)
    return claim


async def test_a_lease_that_ends_too_far_ahead_is_taken_back(store: Store) -> None:
    await store.jobs.enqueue(RECIPE, ORIGIN)
    await claim_one(store, ttl=FURTHEST_LEASE)
    assert await store.leases.expire() == 0
    assert await store.leases.expire(longest=FURTHEST_LEASE - 1) == 1
    await claim_one(store, ttl=FURTHEST_LEASE + 1)
    assert await store.leases.expire() == 1


async def test_a_job_keeps_the_time_of_its_first_start(store: Store, clock: Clock) -> None:
    await store.jobs.enqueue(recipe(variants=2), ORIGIN)
    first = clock.now
    claim = await claim_one(store)
    clock.now += 5
    await claim_one(store)
    assert (await store.jobs.get(claim.job_id)).started_at == first
    await store.leases.complete(claim, artifact="aa/aa.png", seconds=1.0)
    assert (await store.jobs.get(claim.job_id)).started_at == first


async def test_an_image_given_back_shows_no_step(store: Store) -> None:
    await store.jobs.enqueue(RECIPE, ORIGIN)
    claim = await claim_one(store)
    await store.leases.heartbeat({claim: 5}, ttl=TTL)
    assert (await store.jobs.get(claim.job_id)).images[0].step == 5
    await store.leases.give_back(claim)
    assert (await store.jobs.get(claim.job_id)).images[0].step == 0
