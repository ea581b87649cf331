"""The contract of the store when the clock is set while jobs are active, on every database."""

from collections.abc import AsyncIterator

import pytest
from recipes import ORIGIN, RECIPE, origin
from stores import TTL, Hands, undelivered

from bot.domain.jobs import State
from bot.domain.quotas import Charge, Measure, Quota
from bot.store import Store
from bot.store.database.database import SETTLING_SECONDS, Clock

DAY = 86_400.0
LATER = SETTLING_SECONDS + 1.0


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
async def store(database_url: str, hands: Hands) -> AsyncIterator[Store]:
    store = await Store.open(database_url, clock=Clock(lambda: hands.wall, lambda: hands.steady))
    yield store
    await store.close()


@pytest.mark.parametrize("jump", [86_400.0, -86_400.0])
async def test_after_a_clock_jump_living_workers_keep_their_images_and_dead_workers_lose_them(
    store: Store, hands: Hands, jump: float
) -> None:
    for number in range(2):
        await store.jobs.enqueue(RECIPE, origin(number, user_id=number))
    (living,) = await store.leases.claim("living", limit=1, ttl=TTL)
    (dead,) = await store.leases.claim("dead", limit=1, ttl=TTL)
    hands.wall += jump
    assert await store.leases.expire(longest=2 * TTL) == 0
    assert await store.leases.heartbeat({living: 3}, ttl=TTL) == set()
    hands.go_on(LATER)
    assert await store.leases.expire(longest=2 * TTL) == 1
    assert (await store.jobs.get(dead.job_id)).state is State.WAITING
    assert (await store.jobs.get(living.job_id)).state is State.RUNNING


@pytest.mark.parametrize("jump", [-300.0, -86_400.0])
async def test_a_result_from_before_the_clock_was_set_back_is_due_at_once(
    store: Store, hands: Hands, jump: float
) -> None:
    await store.jobs.enqueue(RECIPE, ORIGIN)
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    await store.leases.complete(claim, artifact="aa/aa.png", seconds=1.0)
    hands.wall += jump
    assert len(await undelivered(store, limit=1)) == 1


async def test_no_image_fails_as_unoffered_because_the_clock_was_set(store: Store, hands: Hands) -> None:
    await store.offers.announce("worker", lanes=[RECIPE.lane], seats=2, ttl=TTL)
    await store.jobs.enqueue(RECIPE, ORIGIN)
    hands.wall += 86_400.0
    assert await store.offers.fail_unoffered(grace=600.0) == 0


async def test_a_duty_and_charges_from_before_the_clock_was_set_back_are_void(
    store: Store, hands: Hands
) -> None:
    quota = Quota(key="pictures_per_day", measure=Measure.PICTURES, limit=1.0, seconds=DAY)
    charge = Charge(pictures=1, cost=1.0, quotas=(quota,))
    assert await store.retention.take_duty("sweep", holder="dead", ttl=900.0)
    await store.jobs.enqueue(RECIPE, origin(1), charge=charge)
    hands.wall -= 30 * DAY
    hands.go_on(LATER)
    assert await store.retention.take_duty("sweep", holder="new", ttl=900.0)
    await store.charges.lapse()
    await store.jobs.enqueue(RECIPE, origin(2), charge=charge)
