"""Values that forms and buttons of this process refer to by a key: kept in memory, lost in a restart.

A `custom_id` has room for a key only. The values themselves, such as the address of a picture that Discord
gave, never come back from a person's client.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from bot.errors import UserMistake

T = TypeVar("T")

MOST = 5000
SECONDS = 24 * 3600.0  # the addresses of files do not live longer


@dataclass(frozen=True, kw_only=True)
class _Kept(Generic[T]):
    thing: T
    user_id: int
    until: float


class Offered(Generic[T]):
    """Keeps things for the person to whom they were offered; drops the oldest. `clock` is monotonic."""

    def __init__(self, *, clock: Callable[[], float], most: int = MOST, seconds: float = SECONDS) -> None:
        self._clock = clock
        self._most = most
        self._seconds = seconds
        self._kept: dict[str, _Kept[T]] = {}

    def keep(self, thing: T, *, user_id: int) -> str:
        """Keep a thing and return its key."""
        while len(self._kept) >= self._most:
            del self._kept[next(iter(self._kept))]
        key = secrets.token_hex(8)
        self._kept[key] = _Kept(thing=thing, user_id=user_id, until=self._clock() + self._seconds)
        return key

    def find(self, key: str, *, user_id: int) -> T:
        """Return the thing; raises UserMistake `form_forgotten` where the person has none of this key."""
        kept = self._kept.get(key)
        if kept is None or kept.user_id != user_id or kept.until < self._clock():
            raise UserMistake("form_forgotten")
        return kept.thing
