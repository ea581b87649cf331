"""Listening to PostgreSQL: one connection that is told what other processes have committed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from bot.store.failures import unavailable
from bot.store.news import CHANNEL

log = logging.getLogger(__name__)

CHECK_SECONDS = 30.0  # a line that was cut without a word shows only when it is used
ANSWER_SECONDS = 10.0
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0


async def listen(
    engine: AsyncEngine, place: str, hear: Callable[[str], None], connected: Callable[[], None]
) -> None:
    """Give `hear` every message on the channel, for ever; a connection that breaks is made anew.

    `connected` is called once a connection listens: what was told before, nobody has heard.
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
                    await connection.invalidate()  # it listens, so it is of no use to others
        except Exception as error:  # noqa: BLE001 - the driver's own errors, for which others poll, are many
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
    """The driver's own connection, which alone can listen."""
    return (await connection.get_raw_connection()).driver_connection
