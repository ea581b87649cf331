"""What the members of the store share: the database, the clock, the wake-ups."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from sqlalchemy.ext.asyncio import AsyncConnection

from bot.store.clock import Clock
from bot.store.database import Database
from bot.store.wake_ups import Changes, WakeUps, publish


@dataclass(frozen=True, kw_only=True)
class Shared:
    """The database, its clock, and the wake-ups that follow committed changes."""

    database: Database
    clock: Clock
    wake_ups: WakeUps = field(default_factory=WakeUps)

    async def tell_time(self) -> None:
        """Read the time of a database that has its own, unless that was done lately."""
        if self.clock.is_stale:
            async with self.database.read() as connection:
                await self.clock.refresh(connection)


class Verbs:
    """Base of the store's members; each verb is one transaction.

    Any verb raises StoreUnavailable, whose message is one sentence, when the database cannot be used; then
    nothing was changed.
    """

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._database = shared.database
        self._clock = shared.clock

    @asynccontextmanager
    async def _changing(self) -> AsyncIterator[tuple[AsyncConnection, Changes]]:
        """Begin a transaction; the loops that wait for its changes are woken once it is committed."""
        changes = Changes()
        async with self._database.write() as connection:
            yield connection, changes
            await publish(connection, changes)
        self._shared.wake_ups.ring(changes)
