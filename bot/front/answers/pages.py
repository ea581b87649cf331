"""Pages of rows, newest first, which the buttons Older and Newer turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

OLDER, NEWER = "older", "newer"
PAGE_ROWS = 10

T = TypeVar("T")
Row_co = TypeVar("Row_co", covariant=True)


class Read(Protocol[Row_co]):
    """Reads rows, newest first: the newest, or those next to the one with a key."""

    async def __call__(
        self, *, older_than: int | None, newer_than: int | None, limit: int
    ) -> Sequence[Row_co]: ...


@dataclass(frozen=True, kw_only=True)
class Turned(Generic[T]):
    """Some rows, newest first, and whether there are others on either side of them."""

    rows: tuple[T, ...]
    older: bool
    newer: bool


async def turned(read: Read[T], way: str = "", key: int = 0) -> Turned[T]:
    """Return the page beside the row `key`; the newest page if no older or too few newer rows exist."""
    limit = PAGE_ROWS + 1
    if way == OLDER and (found := await read(older_than=key, newer_than=None, limit=limit)):
        return Turned(rows=tuple(found[:PAGE_ROWS]), older=len(found) > PAGE_ROWS, newer=True)
    if way == NEWER:
        found = await read(older_than=None, newer_than=key, limit=limit)
        if len(found) > PAGE_ROWS:
            return Turned(rows=tuple(found[-PAGE_ROWS:]), older=True, newer=True)
    found = await read(older_than=None, newer_than=None, limit=limit)
    return Turned(rows=tuple(found[:PAGE_ROWS]), older=len(found) > PAGE_ROWS, newer=False)
