"""What the groups of verbs share."""

from __future__ import annotations

from collections.abc import Callable

from bot.store.bell import Bell
from bot.store.database import Database


class Verbs:
    """A database, a clock, and the bells that verbs ring once their transaction is committed."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock
        self._work = Bell()
        self._results = Bell()

    async def wait_for_work(self, timeout: float) -> None:  # noqa: ASYNC109 - the polling interval
        """Return when images may be waiting: at once in this process, else after `timeout` seconds."""
        await self._work.wait(timeout)

    async def wait_for_deliveries(self, timeout: float) -> None:  # noqa: ASYNC109 - the polling interval
        """Return when results may be due: at once in this process, else after `timeout` seconds."""
        await self._results.wait(timeout)

    def _ring(self, *, work: bool = False, result: bool = False) -> None:
        if work:
            self._work.ring()
        if result:
            self._results.ring()
