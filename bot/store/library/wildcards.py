"""Wildcards: lists that a server keeps, from which a prompt's `__name__` takes an entry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.store.library.named import NamedRows
from bot.store.rows.audit import Act
from bot.store.tables import queue

MAX_WILDCARDS = 100  # of one server


@dataclass(frozen=True, kw_only=True)
class Wildcard:
    """One list: the entries in the order in which they were typed."""

    name: str
    entries: tuple[str, ...]


class Wildcards(NamedRows[Wildcard]):
    """The verbs of wildcards."""

    table = queue.wildcards
    most = MAX_WILDCARDS
    full = "wildcards_full"
    act = Act.LIST

    @staticmethod
    def _read(row: Any) -> Wildcard:
        return Wildcard(name=row.name, entries=tuple(row.entries))

    @staticmethod
    def _values(thing: Wildcard) -> Mapping[str, Any]:
        return {"entries": list(thing.entries)}
