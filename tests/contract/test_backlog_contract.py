"""The open work of all jobs, on every database."""

from __future__ import annotations

from dataclasses import replace

from recipes import ORIGIN, origin, recipe
from stores import TTL, Clock

from bot.store import Store
from bot.store.queue.statistics import Backlog
from bot.store.rows.audit import By
from bot.store.rows.restrictions import Scope


async def test_an_empty_queue_has_no_backlog(store: Store) -> None:
    nothing = Backlog(waiting=0, paused=0, running=0, undelivered=0, oldest_seconds=0.0)
    assert await store.jobs.backlog() == nothing


async def test_the_backlog_counts_images_and_results_and_says_how_old_the_oldest_result_is(
    store: Store, clock: Clock
) -> None:
    await store.jobs.enqueue(recipe(), ORIGIN)
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    await store.leases.complete(claim, artifact="aa/aa.png", seconds=1.0)
    await store.jobs.enqueue(recipe(variants=3), origin(2))
    await store.leases.claim("worker", limit=1, ttl=TTL)
    clock.now += 7
    found = await store.jobs.backlog()
    assert found == Backlog(waiting=2, paused=0, running=1, undelivered=1, oldest_seconds=7.0)
    here = ORIGIN.guild_id or 0
    await store.moderation.pause(Scope(guild_id=here), by=By(actor_id=1, guild_id=here))
    assert await store.jobs.backlog() == replace(found, waiting=0, paused=2)
