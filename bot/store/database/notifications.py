"""The notifications of PostgreSQL, by which a commit wakes the loops of other processes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from bot.domain.errors import StoreUnavailable
from bot.store.database.failures import TRANSLATED, unavailable

log = logging.getLogger(__name__)

CHANNEL = "sdjax_bot"
CHECK_SECONDS = 30.0  # a silently cut connection is noticed only on use
ANSWER_SECONDS = 10.0
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0


async def listen(
    engine: AsyncEngine,
    place: str,
    hear: Callable[[str], None],
    connected: Callable[[], None],
    failed: Callable[[StoreUnavailable], None],
) -> None:
    """Pass every message on PostgreSQL's channel to `hear`, for ever; a broken connection is replaced.

    `connected` is called once a connection listens: earlier notifications may have been missed. `failed` is
    called when no connection can be made. A lost connection is logged once it is replaced: where the server
    is away, only its outage is logged.
    """
    pause, lost = FIRST_PAUSE, ""
    while True:
        listening = False
        try:
            async with engine.connect() as connection:
                try:
                    ended = await _begin(connection, hear)
                    listening = True
                    if lost:
                        log.warning("the connection for notifications was lost and is replaced: %s", lost)
                    connected()
                    pause = FIRST_PAUSE
                    await _until_ended(connection, ended)
                finally:
                    await connection.invalidate()  # it listens, so the pool must not reuse it
            lost = f"{place} has closed the connection."
        except Exception as error:  # noqa: BLE001 - the driver has many errors; polling goes on without wake-ups
            lost = str(unavailable(error, place) or repr(error)) if listening else ""
            if not listening:
                _report(error, place, failed)
        await asyncio.sleep(pause)
        pause = min(LONGEST_PAUSE, 2 * pause)


def _report(error: Exception, place: str, failed: Callable[[StoreUnavailable], None]) -> None:
    """Report that no connection listens: to `failed`, unless the database answers."""
    better = unavailable(error, place)
    if better is not None and isinstance(error, TRANSLATED):
        failed(better)
    else:
        log.warning("notifications cannot be received now, so loops poll: %s", better or repr(error))


async def _begin(connection: AsyncConnection, hear: Callable[[str], None]) -> asyncio.Event:
    """Listen; the event is set once the connection has ended."""
    driver, ended = await _driver(connection), asyncio.Event()
    driver.add_termination_listener(lambda _connection: ended.set())
    await driver.add_listener(CHANNEL, lambda _connection, _pid, _channel, text: hear(text))
    return ended


async def _until_ended(connection: AsyncConnection, ended: asyncio.Event) -> None:
    driver = await _driver(connection)
    while not ended.is_set():
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await ended.wait()
        except TimeoutError:
            await driver.fetchval("SELECT 1", timeout=ANSWER_SECONDS)


async def _driver(connection: AsyncConnection) -> Any:
    """Return the driver's connection; only it can listen."""
    return (await connection.get_raw_connection()).driver_connection
