"""How lanes beside each other change the estimated end of a job, on every database."""

from __future__ import annotations

import pytest
from recipes import RECIPE, origin, recipe
from stores import TTL, Clock

from bot.jobs import Claim, Recipe
from bot.store import Store
from bot.store.positions import RECENT_SECONDS

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
