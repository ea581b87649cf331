"""An outage of a real database in the log of a process: the lines of several loops become one."""

from __future__ import annotations

import asyncio
import io
import logging
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from postgres_server import PostgresServer
from recipes import RECIPE, origin
from stores import Clock

from bot.domain.errors import StoreUnavailable
from bot.store import Store
from bot.store.database.outage import LINE_SECONDS, SETTLED_SECONDS, Outage
from bot.telemetry.log import flush, set_up
from bot.telemetry.metrics import Metrics

STEP_SECONDS = 4.0
OUTAGE_SECONDS = LINE_SECONDS + STEP_SECONDS
TURNS = OUTAGE_SECONDS / STEP_SECONDS
loops = logging.getLogger("bot.a_loop")


@pytest.fixture(autouse=True)
def written() -> Iterator[io.StringIO]:
    """What the process writes to its log."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    stream = io.StringIO()
    set_up("info", "text", stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)


def messages(written: io.StringIO) -> list[str]:
    flush()
    return [line.split(maxsplit=4)[4] for line in written.getvalue().splitlines()]


class Process:
    """An open store, and loops that use it."""

    def __init__(self, store: Store, clock: Clock, metrics: Metrics) -> None:
        self.store = store
        self._clock = clock
        self._metrics = metrics
        self._numbers = iter(range(1, 1000))

    @property
    def failures(self) -> float:
        return self._metrics.registry.get_sample_value("sdjax_store_failures_total") or 0.0

    async def turn(self) -> int:
        """Let three loops use the store once, at the same time; return how many failed."""
        verbs = (
            lambda: self.store.jobs.enqueue(RECIPE, origin(next(self._numbers))),
            lambda: self.store.jobs.enqueue(RECIPE, origin(next(self._numbers))),
            self.store.jobs.backlog,
        )
        return sum(await asyncio.gather(*map(self._loop, verbs)))

    async def _loop(self, verb: Callable[[], Awaitable[object]]) -> bool:
        try:
            await verb()
        except StoreUnavailable as error:
            loops.error("a loop goes on later: %s", error)
            return True
        return False

    async def turns(self, seconds: float) -> int:
        """Let the loops use the store again and again; return how many uses failed."""
        failed = 0
        for _ in range(round(seconds / STEP_SECONDS)):
            failed += await self.turn()
            self._clock.now += STEP_SECONDS
        return failed


@asynccontextmanager
async def process(url: str, clock: Clock) -> AsyncIterator[Process]:
    metrics = Metrics()
    store = await Store.open(url, metrics=metrics.store)
    store.shared.database.new_outage = lambda: Outage(clock)
    try:
        yield Process(store, clock, metrics)
    finally:
        await store.close()


async def test_a_locked_file_is_one_outage_although_it_can_be_read(
    database: Path, clock: Clock, written: io.StringIO
) -> None:
    async with process(f"sqlite:///{database}?timeout=0.05", clock) as running:
        with closing(sqlite3.connect(database)) as other:
            other.execute("BEGIN IMMEDIATE")  # other connections can still read
            assert await running.turns(OUTAGE_SECONDS) == running.failures == 2 * TURNS
            other.rollback()
        assert not await running.turns(SETTLED_SECONDS + STEP_SECONDS)
    locked = f"{database} is locked by another process: stop that process or wait until it is done."
    assert messages(written) == [
        f"the queue cannot be used: {locked}",
        f"the queue cannot be used, for 60 s now: {locked}",
        "the queue can be used again, after 64 s",
    ]


async def test_a_bug_is_no_outage(database: Path, clock: Clock, written: io.StringIO) -> None:
    async with process(f"sqlite:///{database}", clock) as running:
        with pytest.raises(sa.exc.IntegrityError):
            async with running.store.shared.database.write() as connection:
                await connection.execute(sa.text("INSERT INTO files (name) VALUES (NULL)"))
    assert running.failures == 1
    assert not messages(written)


@pytest.mark.postgres
async def test_a_lost_server_is_one_outage_for_loops_and_wake_ups(
    postgres_server: PostgresServer, postgres_url: str, clock: Clock, written: io.StringIO
) -> None:
    async with process(postgres_url, clock) as running:
        listening = asyncio.create_task(running.store.listen())
        await running.store.wake_ups.work.wait(60.0)
        postgres_server.stop()
        try:
            async with asyncio.timeout(20):
                while not messages(written):  # noqa: ASYNC110 - the wake-ups notice it by themselves
                    await asyncio.sleep(0.01)
            assert await running.turns(OUTAGE_SECONDS) == running.failures == 3 * TURNS
        finally:
            postgres_server.start()
        await running.store.wake_ups.work.wait(60.0)  # rung once the lost connection is replaced
        assert not await running.turns(SETTLED_SECONDS + STEP_SECONDS)
        listening.cancel()
    first, lasting, again = messages(written)
    assert first.startswith("the queue cannot be used: postgresql+asyncpg://")
    assert " cannot be reached (" in first
    assert first.endswith("): check that the server runs, and that queue.database has its address.")
    assert lasting.startswith("the queue cannot be used, for 60 s now: ")
    assert again == "the queue can be used again, after 64 s"


@pytest.mark.postgres
async def test_a_cut_connection_of_wake_ups_is_no_outage(
    postgres_server: PostgresServer, postgres_url: str, clock: Clock, written: io.StringIO
) -> None:
    cut = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = '{}'"
    )
    async with process(postgres_url, clock) as running:
        listening = asyncio.create_task(running.store.listen())
        await running.store.wake_ups.work.wait(60.0)
        postgres_server.execute(cut.format(sa.make_url(postgres_url).database))
        await running.store.wake_ups.work.wait(60.0)
        await running.turns(STEP_SECONDS)
        listening.cancel()
    (line,) = messages(written)
    assert line.startswith("the connection for notifications was lost and is replaced: postgresql+asyncpg://")
    assert line.endswith(" has closed the connection.")
