"""The messages on their way to Discord."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.domain.outbox import Outgoing
from bot.page.house import House

MOST_MESSAGES = 50


async def read(house: House, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the counts of every kind, and the messages of the chosen one that are due longest."""
    kinds = [kind.value for kind in Outgoing]
    kind = query.get("kind", "")
    kind = kind if kind in kinds else Outgoing.RESULT.value
    waiting = {each.kind: each for each in await house.store.messages.waiting()}
    messages = await house.store.messages.unsent(Outgoing(kind), limit=MOST_MESSAGES)
    return {"kinds": kinds, "kind": kind, "waiting": waiting, "messages": messages}
