"""The notifications of PostgreSQL, by which a commit wakes the loops of other processes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from bot.store.failures import unavailable

log = logging.getLogger(__name__)

CHANNEL = "sdjax_bot"
CHECK_SECONDS = 30.0  # a silently cut connection is noticed only on use
ANSWER_SECONDS = 10.0
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0


async def listen(
    engine: AsyncEngine, place: str, hear: Callable[[str], None], connected: Callable[[], None]
) -> None:
    """Pass every message on PostgreSQL's channel to `hear`, for ever; a broken connection is replaced.

    `connected` is called once a connection listens: earlier notifications may have been missed.
    """
    pause = FIRST_PAUSE
    while True:
        try:
            async with engine.connect() as connection:
                try:
                    lost = await _begin(connection, hear)
                    connected()
                    pause = FIRST_PAUSE
                    await _until_lost(connection, lost)
                finally:
                    await connection.invalidate()  # it listens, so the pool must not reuse it
        except Exception as error:  # noqa: BLE001 - the driver has many errors; polling goes on without wake-ups
            log.warning("wake-ups do not come for now: %s", unavailable(error, place) or repr(error))
        else:
            log.warning("wake-ups do not come for now: %s has closed the connection", place)
        await asyncio.sleep(pause)
        pause = min(LONGEST_PAUSE, 2 * pause)


async def _begin(connection: AsyncConnection, hear: Callable[[str], None]) -> asyncio.Event:
    """Listen; the event is set once the connection has ended."""
    driver, lost = await _driver(connection), asyncio.Event()
    driver.add_termination_listener(lambda _connection: lost.set())
    await driver.add_listener(CHANNEL, lambda _connection, _pid, _channel, text: hear(text))
    return lost


async def _until_lost(connection: AsyncConnection, lost: asyncio.Event) -> None:
    driver = await _driver(connection)
    while not lost.is_set():
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await lost.wait()
        except TimeoutError:
            await driver.fetchval("SELECT 1", timeout=ANSWER_SECONDS)


async def _driver(connection: AsyncConnection) -> Any:
    """Return the driver's connection; only it can listen."""
    return (await connection.get_raw_connection()).driver_connection
