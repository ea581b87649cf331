"""Writes that are cancelled at any moment, as with the task of a command."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import sqlalchemy as sa

from bot.store.database import Database
from bot.store.opening import open_database


async def _write(database: Database) -> None:
    async with database.write() as connection:
        await connection.execute(sa.text("INSERT INTO written VALUES (1)"))
        await connection.execute(sa.text("SELECT count(*) FROM written"))


async def test_a_cancelled_write_leaves_no_lock_behind(tmp_path: Path) -> None:
    database = await open_database(f"sqlite+aiosqlite:///{tmp_path / 'queue.sqlite3'}")
    async with database.write() as connection:
        await connection.execute(sa.text("CREATE TABLE written (number INTEGER)"))
    moments = random.Random(1)
    for _ in range(100):
        tasks = [asyncio.create_task(_write(database)) for _ in range(3)]
        await asyncio.sleep(0.004 * moments.random())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await _write(database)  # raises StoreUnavailable where a lock is left
    await database.close()
