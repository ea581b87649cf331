"""The queue of a bot that has run, opened for a command of its operator."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from bot.config import Config
from bot.domain.errors import ConfigurationError, StoreUnavailable
from bot.store import Store
from bot.store.database.opening import connect_database, has_tables
from bot.store.database.upgrade import level

T = TypeVar("T")


async def with_store(config: Config, act: Callable[[Store], Awaitable[T]]) -> T:
    """Return what `act` returns with the configured store open.

    Raises ConfigurationError where no bot has run on it: its path may be relative to another folder.
    Raises StoreUnavailable where its tables are of an older version, which may run on it and be needed again.
    """
    database = connect_database(config.queue.database)
    try:
        if not await has_tables(database):
            raise ConfigurationError(
                f"There is no queue in {database.place}: run this in the folder where the bot runs, with the "
                "bot's configuration, after its first start."
            )
        async with database.read() as connection:
            tables = await connection.run_sync(level)
    finally:
        await database.close()
    if tables.is_known and tables.current != tables.head:
        raise StoreUnavailable(
            f"The tables in {database.place} are of an older version of the bot ({tables.current}): run this "
            f"with that version, or start this version, which brings them to {tables.head}."
        )
    store = await Store.open(config.queue.database)
    try:
        return await act(store)
    finally:
        await store.close()
