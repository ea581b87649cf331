"""How a database is opened: by its URL, with its tables brought up to date or as they are."""

from __future__ import annotations

import asyncio
import logging
import os
import time

import sqlalchemy as sa

from bot.domain.errors import StoreUnavailable
from bot.process.threads import in_uninterruptible_thread
from bot.store.database.database import Database, translated
from bot.store.database.engines import create_engine, parse_url, patient
from bot.store.database.failures import is_deadlock, is_locked_out
from bot.store.database.postgresql_server import postgresql_place
from bot.store.database.sqlite_file import check_file, sqlite_path
from bot.store.database.upgrade import upgrade

log = logging.getLogger(__name__)

DEADLOCKS = 9  # the most repeats of one upgrade
PATIENCE_SECONDS = 1800.0
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0


async def open_database(url: str) -> Database:
    """Connect and bring the tables up to date.

    Raises ConfigurationError for an invalid URL, and StoreUnavailable for a database that cannot be used now.
    """
    upgrading = await make_database(url)
    try:
        await _upgrade(upgrading)
    finally:
        await upgrading.close()
    return Database(create_engine(parse_url(url)), upgrading.place)


async def _upgrade(database: Database) -> None:
    """Run the missing migrations.

    Repeats this after a deadlock with a process at work, DEADLOCKS times, and for about PATIENCE_SECONDS
    while a long transaction holds the tables. The pauses grow: the running processes wait for each attempt.
    """
    deadlocks, pause, ends = 0, FIRST_PAUSE, time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            async with database.write() as connection:
                await connection.run_sync(upgrade)
                return
        except StoreUnavailable as error:
            deadlocks += is_deadlock(error)
            if is_locked_out(error) and time.monotonic() < ends:
                log.warning("%s", error)
                await asyncio.sleep(pause)
                pause = min(LONGEST_PAUSE, 2 * pause)
            elif not is_deadlock(error) or deadlocks > DEADLOCKS:
                raise


async def make_database(url: str) -> Database:
    """Return the database with its tables as they are; a missing file of SQLite is made, without tables.

    A transaction waits up to UPGRADE_SECONDS for SQLite's lock. Raises like `open_database`.
    """
    parsed = parse_url(url)
    engine = create_engine(patient(parsed))
    if parsed.get_backend_name() == "sqlite":
        place = sqlite_path(parsed)
        with translated(place):
            await in_uninterruptible_thread(lambda: check_file(parsed))
    else:
        place = postgresql_place(parsed)
    return Database(engine, place)


def connect_database(url: str) -> Database:
    """Return the database with its tables as they are; connects to nothing yet.

    Raises ConfigurationError for an invalid URL.
    """
    parsed = parse_url(url)
    local = parsed.get_backend_name() == "sqlite"
    return Database(create_engine(parsed), sqlite_path(parsed) if local else postgresql_place(parsed))


async def has_tables(database: Database) -> bool:
    """Return whether the tables have been made; a missing file of SQLite is not made."""
    local = not database.has_time
    if local and not os.path.exists(database.place):  # noqa: ASYNC240, PTH110 - a local file
        return False
    async with database.read() as connection:
        return await connection.run_sync(lambda here: sa.inspect(here).has_table("alembic_version"))
