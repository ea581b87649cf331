"""The work that waits, in seconds of a worker of each class of accelerators, on every database."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
import sqlalchemy as sa
from engines import TINY
from postgres_server import PostgresServer
from recipes import ORIGIN, RECIPE, origin, recipe
from sqlalchemy.ext.asyncio import create_async_engine
from stores import TTL, Clock

from bot.domain.errors import ConfigurationError
from bot.store import Store
from bot.store.queue.demand import Demand
from bot.store.rows.audit import By
from bot.store.rows.device_time import WorkerClass
from bot.store.rows.restrictions import Scope
from bot.store.tables.queue import images, jobs

WIDE = recipe(width=256, model="wide")
FALLBACK = 0.5
SERVER = Scope(guild_id=ORIGIN.guild_id or 0)
MODERATOR = By(actor_id=1, guild_id=ORIGIN.guild_id or 0, reason="a moment")


async def of(store: Store, accelerator: str) -> dict[str, Demand]:
    """The demand for a class, by model."""
    return {row.model: row for row in await store.demands.rows() if row.accelerator == accelerator}


async def paint(store: Store, *, seconds: float, worker_class: WorkerClass, number: int) -> None:
    await store.jobs.enqueue(RECIPE, origin(number))
    (claim,) = await store.leases.claim("painter", limit={RECIPE.lane: 1}, ttl=TTL)
    await store.leases.complete(claim, artifact="aa/aa.png", seconds=seconds, worker_class=worker_class)


async def test_an_empty_queue_has_no_demand(store: Store) -> None:
    assert await store.demands.rows() == []


async def test_work_is_counted_by_lane_for_every_class_that_is_known(store: Store, clock: Clock) -> None:
    await store.offers.announce("worker", lanes=[RECIPE.lane], seats=2, ttl=TTL, accelerator="NVIDIA H100")
    await store.demands.know(["our own", "cpu"])
    oldest = clock.now
    await store.jobs.enqueue(recipe(variants=3), origin(1))
    clock.now += 9
    await store.jobs.enqueue(recipe(variants=2), origin(2, user_id=5))
    await store.jobs.enqueue(WIDE, origin(3))
    rows = await store.demands.rows()
    assert {row.accelerator for row in rows} == {"cpu", "nvidia", "tpu", "NVIDIA H100", "our own"}
    steps = RECIPE.num_inference_steps
    found = await of(store, "cpu")
    assert found["demo"] == Demand(
        lane=str(RECIPE.lane),
        model="demo",
        accelerator="cpu",
        work_seconds=5 * steps * FALLBACK,
        images=5,
        oldest=oldest,
    )
    assert (found["wide"].images, found["wide"].oldest) == (1, clock.now)


async def test_run_times_are_kept_by_class_and_a_class_without_any_gets_the_mean_of_the_others(
    store: Store,
) -> None:
    steps = RECIPE.num_inference_steps
    await paint(store, seconds=steps * 0.8, worker_class=WorkerClass(accelerator="cpu", seats=2), number=1)
    await paint(store, seconds=steps * 0.8, worker_class=WorkerClass(accelerator="tpu", seats=8), number=2)
    await store.jobs.enqueue(RECIPE, origin(3))
    each = {row.accelerator: row.work_seconds for row in await store.demands.rows()}
    expected = {"cpu": steps * 0.4, "tpu": steps * 0.1, "nvidia": steps * 0.25}
    assert each == {name: pytest.approx(seconds) for name, seconds in expected.items()}


async def test_images_that_workers_hold_are_counted_apart_and_ended_ones_not_at_all(store: Store) -> None:
    await paint(store, seconds=1.0, worker_class=WorkerClass(accelerator="cpu"), number=1)
    await store.jobs.enqueue(recipe(variants=3), origin(2))
    claims = await store.leases.claim("worker", limit=3, ttl=TTL)
    held = (await of(store, "cpu"))["demo"]
    assert (held.images, held.work_seconds, held.oldest, held.running) == (0, 0.0, None, 3)
    await store.leases.give_back(claims[0])
    there = (await of(store, "cpu"))["demo"]
    assert (there.images, there.running) == (1, 2)
    assert there.oldest is not None


@pytest.mark.parametrize("scope", [SERVER, replace(SERVER, channel_id=31)], ids=["server", "thread"])
async def test_the_demand_has_what_claims_take_in_a_pause_and_after_it(store: Store, scope: Scope) -> None:
    here = await store.jobs.enqueue(RECIPE, origin(1, channel_id=33, thread_parent_id=31))
    elsewhere = await store.jobs.enqueue(RECIPE, origin(2, guild_id=99, user_id=12))
    await store.moderation.pause(scope, by=MODERATOR)
    assert (await of(store, "cpu"))["demo"].images == 1
    async with store.shared.database.write() as connection:  # as a job that is stored while a pause starts
        await connection.execute(sa.update(images).where(images.c.job_id == here.id).values(paused=False))
        await connection.execute(sa.update(jobs).where(jobs.c.id == here.id).values(paused=False))
    demand = (await of(store, "cpu"))["demo"]
    claims = await store.leases.claim("worker", limit=9, ttl=TTL)
    assert [claim.job_id for claim in claims] == [elsewhere.id]
    assert demand.images == len(claims)
    await store.moderation.resume(scope, by=MODERATOR)
    assert (await of(store, "cpu"))["demo"].images == 1


async def test_a_model_that_a_front_awaits_wakes_one_worker_of_each_class_until_it_is_published(
    store: Store, clock: Clock
) -> None:
    clock.now = time.time()  # the view reads the database's own
    await store.offers.await_published(["demo"], ttl=TTL)
    row = Demand(lane="demo:", model="demo", accelerator="tpu", work_seconds=1.0, images=0, oldest=None)
    assert await of(store, "tpu") == {"demo": row}
    assert len(await store.demands.rows()) == 3
    await store.offers.publish([replace(TINY, model="demo")])
    assert await store.demands.rows() == []
    await store.offers.await_published(["wide"], ttl=-1.0)
    assert await store.demands.rows() == [], "a front that is gone awaits nothing"


async def test_images_wait_for_workers_that_something_stands_in_for(store: Store, clock: Clock) -> None:
    await store.jobs.enqueue(RECIPE, ORIGIN)
    clock.now += 600
    await store.offers.stand_in("fleet", lanes=[str(RECIPE.lane)], ttl=TTL)
    assert await store.offers.fail_unoffered(grace=600) == 0
    clock.now += TTL + 600
    assert await store.offers.fail_unoffered(grace=600) == 1


@pytest.mark.postgres
async def test_a_role_of_its_own_reads_the_view_and_nothing_else(
    postgres_url: str, postgres_server: PostgresServer
) -> None:
    store = await Store.open(postgres_url)
    database = sa.make_url(postgres_url).database or ""
    scaler = create_async_engine(postgres_server.url(database, user="scaler", password="a-secret"))
    with pytest.raises(ConfigurationError, match="no role “scaler”: create it"):
        await store.demands.grant("scaler")
    postgres_server.execute("CREATE ROLE scaler LOGIN PASSWORD 'a-secret'")
    try:
        await store.demands.grant("scaler")
        await store.jobs.enqueue(recipe(variants=4), ORIGIN)
        async with scaler.connect() as connection:
            seconds = await connection.scalar(
                sa.text("SELECT sum(work_seconds) FROM fleet_demand WHERE accelerator = 'cpu'")
            )
        assert seconds == 4 * RECIPE.num_inference_steps * FALLBACK
        for refused in ("SELECT 1 FROM jobs", "SELECT 1 FROM images", "DELETE FROM images"):
            async with scaler.connect() as connection:
                with pytest.raises(sa.exc.DBAPIError, match="permission denied"):
                    await connection.execute(sa.text(refused))
    finally:
        await scaler.dispose()
        async with store.shared.database.write() as connection:
            await connection.execute(sa.text("DROP OWNED BY scaler"))
        await store.close()
        postgres_server.execute("DROP ROLE scaler")
