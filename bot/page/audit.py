"""The audit log, with what each act has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from bot.page.guard import number_of
from bot.page.house import House
from bot.store.rows.audit import Act

ON_A_PAGE = 50
MOST_VALUE = 200  # characters


async def read(house: House, query: Mapping[str, str]) -> dict[str, Any]:
    """Return entries, newest first, of one server, person or act if asked."""
    act = query.get("act", "")
    before = number_of(query.get("before", ""))
    entries = await house.store.moderation.entries(
        number_of(query.get("server", "")),
        person_id=number_of(query.get("person", "")),
        act=Act(act) if act in tuple(Act) else None,
        older_than=before or None,
        limit=ON_A_PAGE + 1,
    )
    last = entries[ON_A_PAGE - 1].id if len(entries) > ON_A_PAGE else None
    shown = [(entry, list(changes(entry.before, entry.after))) for entry in entries[:ON_A_PAGE]]
    return {"entries": shown, "acts": list(Act), "query": query, "last": last}


def text_of(value: Any) -> str:
    """Return a value as a short text; empty for None."""
    text = whole_text_of(value)
    return text if len(text) <= MOST_VALUE else text[: MOST_VALUE - 1] + "…"


def whole_text_of(value: Any) -> str:
    """Return a value as a text of any length; empty for None."""
    if value is None:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def changes(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, *, text: Callable[[Any], str] = text_of
) -> Iterator[tuple[str, str, str]]:
    """Yield each key whose value changed, with its old and its new value as texts."""
    old, new = before or {}, after or {}
    for key in {**old, **new}:
        if old.get(key) != new.get(key):
            yield key, text(old.get(key)), text(new.get(key))
