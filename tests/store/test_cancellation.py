"""Reads and writes that are cancelled at any moment, as with the task of a command."""

from __future__ import annotations

import asyncio
import gc
import random
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from bot.store.database.database import Database
from bot.store.database.opening import open_database

COUNTING = sa.select(sa.func.count()).select_from(sa.table("written"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "queue.sqlite3"


@pytest.fixture
async def database(file: Path) -> AsyncIterator[Database]:
    opened = await open_database(f"sqlite+aiosqlite:///{file}")
    async with opened.write() as connection:
        await connection.execute(sa.text("CREATE TABLE written (number INTEGER)"))
    yield opened
    await opened.close()


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No garbage is collected, as between the rare collections of a bot."""
    gc.disable()
    yield
    gc.enable()


async def _write(database: Database) -> None:
    async with database.write() as connection:
        await connection.execute(sa.text("INSERT INTO written VALUES (1)"))
        await connection.execute(COUNTING)


async def _read(database: Database) -> None:
    async with database.read() as connection:
        await connection.execute(COUNTING)


async def _look(database: Database) -> None:
    await database.look(COUNTING, {})


async def cancelled(database: Database, use: Callable[[Database], Awaitable[None]]) -> AsyncIterator[None]:
    """Use the database in three tasks, cancel them at a random moment, and yield, a hundred times."""
    moments = random.Random(1)
    for _ in range(100):
        tasks = [asyncio.ensure_future(use(database)) for _ in range(3)]
        await asyncio.sleep(0.004 * moments.random())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        yield


async def test_a_cancelled_write_leaves_no_lock_behind(database: Database) -> None:
    async for _ in cancelled(database, _write):
        await _write(database)  # raises StoreUnavailable where a lock is left


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("use", [_write, _read, _look])
async def test_nothing_that_was_cancelled_keeps_its_snapshot(
    use: Callable[[Database], Awaitable[None]], database: Database, file: Path
) -> None:
    async for _ in cancelled(database, use):
        await _write(database)
    await database.close()
    with closing(sqlite3.connect(file)) as connection:
        busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert not busy
