"""The limit on requests with files: so many in all, one at a time for each person."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from bot.domain.errors import UserMistake
from bot.moderation.limits import Sender


class WaitingRoom:
    """Admits `places` requests with files at once; a person may have an eighth of them, a server half.

    `places` may change. Admitted requests of different people run side by side, because a host that answers
    slowly must keep nobody else waiting. A person's requests run one at a time.
    """

    def __init__(self, *, places: int) -> None:
        self.places = places
        self._people: Counter[int] = Counter()
        self._servers: Counter[int] = Counter()
        self._turns: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, sender: Sender) -> AsyncIterator[None]:
        """Wait for a turn and hold it until left; raises UserMistake `files_busy` where no place is free."""
        self._enter(sender)
        turn = self._turns.get(sender.user_id)
        if turn is None:
            turn = self._turns[sender.user_id] = asyncio.Lock()
        try:
            async with turn:
                yield
        finally:
            self._leave(sender)

    def _enter(self, sender: Sender) -> None:
        full = self._people.total() >= self.places
        full = full or self._people[sender.user_id] >= max(1, self.places // 8)
        if sender.guild_id is not None:
            full = full or self._servers[sender.guild_id] >= max(1, self.places // 2)
        if full:
            raise UserMistake("files_busy")
        self._people[sender.user_id] += 1
        if sender.guild_id is not None:
            self._servers[sender.guild_id] += 1

    def _leave(self, sender: Sender) -> None:
        for counts, key in ((self._people, sender.user_id), (self._servers, sender.guild_id)):
            if key is not None:
                counts[key] -= 1
                if not counts[key]:
                    del counts[key]
