"""What the groups of verbs share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy.ext.asyncio import AsyncConnection

from bot.store.bell import Bell
from bot.store.clock import Clock
from bot.store.database import Database
from bot.store.news import EVERYTHING, News, publish


class Verbs:
    """A database, a clock, and the bells that wake who waits once a transaction is committed.

    In this process they ring at once, elsewhere as soon as PostgreSQL has told; on SQLite others must look.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._work = Bell()
        self._results = Bell()
        self._cancellations = Bell()

    async def tell_time(self) -> None:
        """Read the time of a database that has its own, unless that was done lately."""
        if self._clock.is_stale:
            async with self._database.read() as connection:
                await self._clock.refresh(connection)

    async def wait_for_work(self, timeout: float) -> None:  # noqa: ASYNC109 - the polling interval
        """Return when images may be waiting: at once when told, else after `timeout` seconds."""
        await self._work.wait(timeout)

    async def wait_for_deliveries(self, timeout: float) -> None:  # noqa: ASYNC109 - the polling interval
        """Return when results may be due: at once when told, else after `timeout` seconds."""
        await self._results.wait(timeout)

    async def wait_for_cancellations(self, timeout: float) -> None:  # noqa: ASYNC109 - the polling interval
        """Return when something was cancelled: at once when told, else after `timeout` seconds."""
        await self._cancellations.wait(timeout)

    async def listen(self) -> None:
        """Hear for ever what other processes do, where the database can tell.

        Whoever waits looks by itself as well, so while no connection can be had nothing is lost but time.
        """
        await self._database.listen(lambda text: self._ring(News.parse(text)), lambda: self._ring(EVERYTHING))

    @asynccontextmanager
    async def _changing(self) -> AsyncIterator[tuple[AsyncConnection, News]]:
        """One transaction that may change things, and what others are to hear of it once it is committed."""
        news = News()
        async with self._database.write() as connection:
            yield connection, news
            await publish(connection, news)
        self._ring(news)

    def _ring(self, news: News) -> None:
        if news.work:
            self._work.ring()
        if news.results:
            self._results.ring()
        if news.cancelled:
            self._cancellations.ring()
