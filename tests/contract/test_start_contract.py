"""The contract of a start on every database: current tables, and all stored rows."""

import asyncio
import traceback

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from recipes import ORIGIN, RECIPE, origin, recipe
from stores import TTL, Clock, run_seconds, undelivered

from bot.domain.errors import StoreUnavailable
from bot.domain.jobs import State
from bot.store import Store
from bot.store.tables.queue import jobs, metadata


async def test_a_restart_keeps_all_rows(database_url: str, clock: Clock) -> None:
    first = await Store.open(database_url, clock=clock)
    waiting = await first.jobs.enqueue(recipe(variants=2), origin(1, user_id=1))
    done = await first.jobs.enqueue(RECIPE, origin(2, user_id=2))
    await first.jobs.set_message(done.id, 5)
    (claim,) = await first.leases.claim("worker", limit=1, ttl=TTL)
    claims = await first.leases.claim("worker", limit=1, ttl=TTL)
    done = await first.leases.complete(claims[0], artifact="aa/aa.png", seconds=2.0)
    waiting = await first.jobs.get(waiting.id)
    await first.close()

    second = await Store.open(database_url, clock=clock)
    assert [await second.jobs.get(job.id) for job in (waiting, done)] == [waiting, done]
    assert [delivery.job for delivery in await undelivered(second, limit=9)] == [done]
    assert await run_seconds(second, RECIPE.lane) == 2.0
    assert await second.leases.heartbeat({claim: 3}, ttl=TTL) == set()
    assert await second.leases.recover("worker") == 1
    assert len(await second.leases.claim("worker", limit=9, ttl=TTL)) == 2
    await second.close()


async def test_close_waits_for_open_transactions_and_refuses_new_ones(database_url: str) -> None:
    store = await Store.open(database_url)
    async with store.shared.database.write() as connection:
        closing = asyncio.create_task(store.close())
        await asyncio.sleep(0)  # it has begun to close
        with pytest.raises(StoreUnavailable, match="is closed"):
            await store.jobs.counts()
        await connection.execute(sa.select(jobs))
        assert not closing.done()
    await closing


async def test_a_new_database_may_be_opened_by_many_at_once(bare_database_url: str) -> None:
    stores = await asyncio.gather(*(Store.open(bare_database_url) for _ in range(6)))
    await asyncio.gather(*(store.jobs.enqueue(RECIPE, origin(n)) for n, store in enumerate(stores)))
    assert (await stores[0].jobs.counts())[State.WAITING] == 6
    await asyncio.gather(*(store.close() for store in stores))


async def test_migrations_make_the_tables_of_the_code(bare_database_url: str) -> None:
    store = await Store.open(bare_database_url)
    async with store.shared.database.read() as connection:
        differences = await connection.run_sync(
            lambda plain: compare_metadata(MigrationContext.configure(plain), metadata)
        )
    await store.close()
    assert differences == []


async def test_a_database_of_a_newer_version_is_refused_unchanged(store: Store, database_url: str) -> None:
    await store.jobs.enqueue(RECIPE, ORIGIN)
    async with store.shared.database.write() as connection:
        await connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreUnavailable, match="newer version"):
        await Store.open(database_url)


async def test_an_error_message_contains_no_stored_values(store: Store) -> None:
    secret = "-".join(["a", "secret"])  # so that the traceback does not quote it from here
    with pytest.raises(sa.exc.DBAPIError) as caught:
        async with store.shared.database.write() as connection:
            await connection.execute(sa.insert(jobs).values(id="x", interaction_token=secret))
    assert secret not in "".join(traceback.format_exception(caught.value))
