"""Simultaneous claims of many workers over several lanes, on every database."""

import asyncio
from collections import Counter
from typing import Any

import pytest
import sqlalchemy as sa
from recipes import RECIPE, origin, recipe
from stores import TTL, Clock, OpenStore

from bot.domain.channels import ChannelKind
from bot.domain.errors import UserMistake
from bot.domain.jobs import Claim, State
from bot.store import Store
from bot.store.queue.seed_sequences import NextOf
from bot.store.tables.queue import jobs
from sdjax_engine.request import Lane

LANES = [recipe(width=side).lane for side in (128, 256, 512)]
WORKERS = 6


async def ask(store: Store, people: int) -> int:
    """Enqueue nine pictures of each lane for each person; return the number of pictures."""
    for user_id in range(people):
        for number, lane in enumerate(LANES):
            wanted = recipe(width=lane.width, variants=9)
            await store.jobs.enqueue(wanted, origin(10 * user_id + number, user_id=user_id))
    return people * len(LANES) * 9


async def work(store: Store, name: str, room: dict[Lane, int]) -> list[Claim]:
    """Claim and complete images until none is left."""
    mine: list[Claim] = []
    idle = 0
    while idle < 3:  # rows locked by another claim still exist
        claims = await store.leases.claim(name, limit=room, ttl=TTL)
        idle = 0 if claims else idle + 1
        mine += claims
        for claim in claims:
            await store.leases.complete(claim, artifact="aa/aa.png", seconds=1.0)
        await asyncio.sleep(0.01 * idle)
    return mine


async def test_a_claim_and_a_delivery_know_the_trace_of_the_job_and_how_long_it_waited(
    store: Store, clock: Clock
) -> None:
    traced = origin(1, traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    await store.jobs.enqueue(RECIPE, traced)
    clock.now += 5.0
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    assert claim.traceparent == traced.traceparent
    assert (claim.enqueued_at, claim.claimed_at) == (clock.now - 5.0, clock.now)
    await store.leases.complete(claim, artifact="aa/aa.png", seconds=1.0)
    (delivery,) = await store.deliveries.claim("front", limit=1)
    assert delivery.job.origin.traceparent == traced.traceparent


@pytest.mark.parametrize("kind", ChannelKind)
async def test_a_claim_and_a_delivery_know_the_kind_of_the_channel(store: Store, kind: ChannelKind) -> None:
    await store.jobs.enqueue(RECIPE, origin(1, channel_kind=kind))
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    assert claim.channel_kind is kind
    await store.leases.complete(claim, artifact="aa/aa.png", seconds=1.0)
    (delivery,) = await store.deliveries.claim("front", limit=1)
    assert delivery.job.origin.channel_kind is kind


async def test_many_workers_share_many_lanes_and_every_image_is_claimed_once(
    store: Store, open_store: OpenStore
) -> None:
    wanted = await ask(store, people=3)
    stores = [store, await open_store(), await open_store()]
    rooms = [dict.fromkeys(LANES, 4), dict.fromkeys(LANES[:2], 3), dict.fromkeys(LANES[1:], 2)]
    async with asyncio.timeout(120):
        got = await asyncio.gather(
            *(work(stores[n % 3], f"worker-{n}", rooms[n % 3]) for n in range(WORKERS))
        )
    tokens = Counter(claim.image_id for claims in got for claim in claims)
    assert len(tokens) == wanted
    assert set(tokens.values()) == {1}
    assert await store.jobs.count_active() == 0


@pytest.mark.parametrize(
    "setting",
    [
        {"colour": "warm"},
        {"sampler": "a new one"},
        {"loras": [{"name": "ink", "weight": 1.0, "blocks": 3}]},
        {"second_pass": {"width": 256, "height": 256, "scaler": "a new one"}},
    ],
    ids=lambda setting: next(iter(setting)),
)
async def test_requests_of_a_newer_version_wait_for_workers_that_know_their_settings(
    store: Store, setting: dict[str, Any]
) -> None:
    newer = [await store.jobs.enqueue(recipe(seed=seed), origin(seed)) for seed in range(3)]
    known = await store.jobs.enqueue(recipe(seed=9), origin(9))
    async with store.shared.database.write() as connection:
        for job in newer:
            said = await connection.scalar(sa.select(jobs.c.recipe).where(jobs.c.id == job.id))
            assert "negative_prompt" not in said, "an older version knows each value that is written"
            changed = sa.update(jobs).where(jobs.c.id == job.id)
            await connection.execute(changed.values(recipe={**said, **setting}))
    (claim,) = await store.leases.claim("worker", limit={RECIPE.lane: 1}, ttl=TTL)
    assert claim.job_id == known.id
    assert await store.leases.claim("worker", limit={RECIPE.lane: 4}, ttl=TTL) == []
    assert (await store.jobs.counts())[State.WAITING] == 3
    with pytest.raises(UserMistake, match="newer_request"):
        await store.jobs.enqueue(NextOf(job_id=newer[0].id), origin(20))
