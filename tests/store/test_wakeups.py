"""On PostgreSQL, processes wake each other at once, also after a connection was cut."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import sqlalchemy as sa
from postgres_server import PostgresServer
from recipes import RECIPE, origin
from stores import TTL

from bot.domain.errors import StaleLease
from bot.store import Store

pytestmark = pytest.mark.postgres

NEVER = 60.0  # seconds of polling
SOON = 5.0  # seconds on a busy machine


@asynccontextmanager
async def listening(url: str) -> AsyncIterator[Store]:
    """A store that listens to other processes."""
    store = await Store.open(url)
    task = asyncio.create_task(store.listen())
    try:
        await until_listening(store)
        yield store
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await store.close()


async def until_listening(store: Store) -> None:
    """Return once a connection listens; this also takes the wake-ups that the start of listening causes."""
    async with asyncio.timeout(SOON):
        for wait in (
            store.wake_ups.work.wait,
            store.wake_ups.results.wait,
            store.wake_ups.cancellations.wait,
        ):
            await wait(NEVER)


@pytest.fixture
async def stores(postgres_url: str) -> AsyncIterator[tuple[Store, Store]]:
    """The stores of two processes: one changes rows, the other listens."""
    async with AsyncExitStack() as stack:
        acting = await Store.open(postgres_url)
        stack.push_async_callback(acting.close)
        yield acting, await stack.enter_async_context(listening(postgres_url))


async def heard(wait: Callable[[float], Awaitable[None]], act: Awaitable[object]) -> float:
    """Seconds from the end of `act` until `wait` returns."""
    waiting = asyncio.ensure_future(wait(NEVER))
    await act
    done_at = time.perf_counter()
    async with asyncio.timeout(SOON):
        await waiting
    return time.perf_counter() - done_at


async def test_another_process_is_woken_long_before_its_next_poll(
    stores: tuple[Store, Store],
) -> None:
    acting, hearing = stores
    took = [await heard(hearing.wake_ups.work.wait, acting.jobs.enqueue(RECIPE, origin(1)))]
    (claim,) = await acting.leases.claim("worker", limit=1, ttl=TTL)
    done = acting.leases.complete(claim, artifact="aa/aa.png", seconds=1.0)
    took.append(await heard(hearing.wake_ups.results.wait, done))
    other = await acting.jobs.enqueue(RECIPE, origin(2))
    took.append(await heard(hearing.wake_ups.cancellations.wait, acting.jobs.cancel(other.id, user_id=None)))
    assert min(took) < 0.25, took


async def test_a_rolled_back_transaction_wakes_no_process(stores: tuple[Store, Store]) -> None:
    acting, hearing = stores
    job = await acting.jobs.enqueue(RECIPE, origin(1))
    (claim,) = await acting.leases.claim("worker", limit=1, ttl=TTL)
    await heard(hearing.wake_ups.results.wait, acting.jobs.cancel(job.id, user_id=None))
    with pytest.raises(StaleLease):
        await acting.leases.complete(claim, artifact="aa/aa.png", seconds=1.0)
    waiting = asyncio.ensure_future(hearing.wake_ups.results.wait(NEVER))
    assert (await asyncio.wait({waiting}, timeout=0.2))[1] == {waiting}
    waiting.cancel()


async def test_a_cut_connection_is_replaced_and_missed_changes_are_found(
    stores: tuple[Store, Store], postgres_server: PostgresServer, postgres_url: str
) -> None:
    acting, hearing = stores
    cut = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = '{}'"
    )
    postgres_server.execute(cut.format(sa.make_url(postgres_url).database))
    await until_listening(hearing)
    await heard(hearing.wake_ups.work.wait, acting.jobs.enqueue(RECIPE, origin(1)))
