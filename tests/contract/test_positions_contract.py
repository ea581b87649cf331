"""How lanes beside each other change the estimated end of a job, on every database."""

from __future__ import annotations

import pytest
from recipes import RECIPE, origin, recipe
from stores import TTL, Clock

from bot.domain.jobs import Claim, Recipe
from bot.store import Store
from bot.store.queue.positions import RECENT_SECONDS

WIDE = recipe(width=256)
"""A recipe of another lane."""


async def begun(store: Store, number: int, asked: Recipe) -> Claim:
    await store.jobs.enqueue(asked, origin(number, user_id=number))
    (claim,) = await store.leases.claim("worker", limit={asked.lane: 1}, ttl=TTL)
    return claim


async def measure(store: Store) -> None:
    """Let both lanes take a tenth of a second a step."""
    for number, asked in enumerate((RECIPE, WIDE)):
        claim = await begun(store, number, asked)
        await store.leases.complete(claim, artifact="aa/aa.png", seconds=asked.num_inference_steps / 10)


async def announce(store: Store, clock: Clock) -> None:
    """Offer both lanes, long after the last request."""
    clock.now += RECENT_SECONDS + 1
    await store.offers.announce("worker", lanes=[RECIPE.lane, WIDE.lane], seats=1, ttl=TTL)


async def test_a_lane_without_work_has_no_part_in_the_estimate_of_another(store: Store, clock: Clock) -> None:
    await measure(store)
    claim = await begun(store, 5, RECIPE)
    await announce(store, clock)
    told = await store.positions.of(claim.job_id)
    assert (told.seats, told.taken) == (1, 1)
    assert (told.seconds, told.end) == (pytest.approx(0.0), pytest.approx(2.0))


async def test_a_lane_that_ends_its_work_first_leaves_its_time_to_the_other(
    store: Store, clock: Clock
) -> None:
    await measure(store)
    long, short = await begun(store, 5, RECIPE), await begun(store, 6, WIDE)
    await store.leases.heartbeat({long: 0, short: 15}, ttl=TTL)
    await announce(store, clock)
    told = await store.positions.of_all([long.job_id, short.job_id])
    # Of 20 steps, 5 are made at a tenth of a second each, and 15 in half of that.
    assert told[long.job_id].end == pytest.approx(0.5 + 0.75)
    assert told[short.job_id].end == pytest.approx(0.5)


async def test_many_steps_after_short_requests_are_expected_by_the_pace_of_a_step(
    store: Store, clock: Clock
) -> None:
    short, long = recipe(num_inference_steps=20), recipe(num_inference_steps=100, variants=9)
    for number in range(3):  # 0.01 s a step, and 0.4 s to begin and to end
        claim = await begun(store, number, short)
        await store.leases.complete(claim, artifact="aa/aa.png", seconds=0.6, pace=0.01)
    clock.now += RECENT_SECONDS + 1
    await store.offers.announce("worker", lanes=[short.lane], seats=2, ttl=TTL)
    job = await store.jobs.enqueue(long, origin(9, user_id=9))
    rounds = 5 * 1.0  # nine pictures in two seats
    assert (await store.positions.of(job.id)).end == pytest.approx(rounds + 0.4)
    await store.leases.claim("worker", limit={long.lane: 4}, ttl=TTL)
    assert (await store.positions.of(job.id)).end == pytest.approx(rounds + 0.4)
    alone = await store.jobs.enqueue(short, origin(10, user_id=10))
    told = await store.positions.of(alone.id)
    assert told.seconds is not None
    assert told.end == pytest.approx(told.seconds + 0.2 + 0.4)
