"""Wake-ups: a committed change wakes the loops that wait for it, in this process and in others.

    transaction ──commit──► WakeUps.ring            loops of this process
         └─ pg_notify ────► listen ──► WakeUps.ring  loops of other processes

SQLite has no notifications: the loops of other processes find the work by polling.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from bot.store.failures import unavailable

log = logging.getLogger(__name__)

CHANNEL = "sdjax_bot"
CHECK_SECONDS = 30.0  # a silently cut connection is noticed only on use
ANSWER_SECONDS = 10.0
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0


class WakeUp:
    """Wakes the waiting loops. A ring while no loop waits wakes the next loop that does."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Wake all loops that wait now, or the next one."""
        self._rung.set()

    async def wait(self, seconds: float) -> None:
        """Return at a ring, or after `seconds`: the work may have come from another process."""
        try:
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        except TimeoutError:
            return
        self._rung.clear()


@dataclass(kw_only=True)
class Changes:
    """What a transaction changed: images may wait, results may be due, a running image was cancelled."""

    work: bool = False
    results: bool = False
    cancelled: bool = False

    def __str__(self) -> str:
        """Return the names of the true fields, separated by spaces."""
        return " ".join(field.name for field in fields(self) if getattr(self, field.name))

    @classmethod
    def parse(cls, text: str) -> Changes:
        """Return the changes that `str` wrote; words of other versions are ignored."""
        words = set(text.split())
        return cls(**{field.name: True for field in fields(cls) if field.name in words})


EVERYTHING = Changes(work=True, results=True, cancelled=True)


class WakeUps:
    """The wake-ups of one process: for workers, for deliveries and reviews, for cancellations."""

    def __init__(self) -> None:
        self.work = WakeUp()
        self.results = WakeUp()
        self.reviews = WakeUp()
        self.cancellations = WakeUp()

    def ring(self, changes: Changes) -> None:
        """Wake the loops that wait for any of these changes."""
        if changes.work:
            self.work.ring()
        if changes.results:
            self.results.ring()
            self.reviews.ring()
        if changes.cancelled:
            self.cancellations.ring()

    def hear(self, text: str) -> None:
        """Wake loops for the changes that another process has published."""
        self.ring(Changes.parse(text))

    def ring_all(self) -> None:
        """Wake every loop: notifications may have been missed."""
        self.ring(EVERYTHING)


async def publish(connection: AsyncConnection, changes: Changes) -> None:
    """Notify other processes once the transaction is committed, and only then."""
    if connection.dialect.name == "postgresql" and (text := str(changes)):
        await connection.execute(sa.select(sa.func.pg_notify(CHANNEL, text)))


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
