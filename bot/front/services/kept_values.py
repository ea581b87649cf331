"""Values that forms and buttons of this process refer to by a key: kept in memory, lost in a restart.

A `custom_id` has room for a key only. The values themselves, such as the address of a picture that Discord
gave, never come back from a person's client.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from bot.domain.errors import UserMistake

T = TypeVar("T")

MOST = 5000
SECONDS = 24 * 3600.0  # the addresses of files do not live longer


@dataclass(frozen=True, kw_only=True)
class _Kept(Generic[T]):
    thing: T
    until: float


class KeptValues(Generic[T]):
    """Keeps things for the person whose form or button refers to them. `clock` is monotonic.

    Where it is full, the oldest thing of the person with the most things is dropped. `forgotten` is the
    mistake of a person whose thing is not there.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        most: int = MOST,
        seconds: float = SECONDS,
        forgotten: str = "form_forgotten",
    ) -> None:
        self._clock = clock
        self._forgotten = forgotten
        self._most = most
        self._seconds = seconds
        self._of: dict[int, dict[str, _Kept[T]]] = {}  # by person
        self._count = 0

    def keep(self, thing: T, *, user_id: int, key: str = "") -> str:
        """Keep a thing and return its key: a new one, or `key`, whose earlier thing is dropped."""
        mine = self._of.get(user_id, {})
        if key and mine.pop(key, None) is not None:
            self._count -= 1
        elif self._count >= self._most:
            self._drop_one()
        key = key or secrets.token_hex(8)
        self._of.setdefault(user_id, mine)[key] = _Kept(thing=thing, until=self._clock() + self._seconds)
        self._count += 1
        return key

    def get(self, key: str, *, user_id: int) -> T | None:
        """Return the thing, None where the person has none of this key."""
        kept = self._of.get(user_id, {}).get(key)
        return None if kept is None or kept.until < self._clock() else kept.thing

    def find(self, key: str, *, user_id: int) -> T:
        """Return the thing; raises UserMistake where the person has none of this key."""
        found = self.get(key, user_id=user_id)
        if found is None:
            raise UserMistake(self._forgotten)
        return found

    def _drop_one(self) -> None:
        person = max(self._of, key=lambda each: len(self._of[each]))
        things = self._of[person]
        del things[next(iter(things))]
        if not things:
            del self._of[person]
        self._count -= 1
