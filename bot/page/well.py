"""The first view: whether all is well, and if not, why and what to do."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.domain.jobs import model_and_size
from bot.domain.time_units import HOUR_SECONDS
from bot.membership.membership import FRONTS
from bot.page.house import House
from bot.telemetry.metrics import WELL
from bot.web.server import examine

LATE_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """What is not well; `kind` chooses the sentence of the template, and `facts` fill it."""

    kind: str
    facts: Mapping[str, Any]


async def read(house: House, _query: Mapping[str, str]) -> dict[str, Any]:
    """Return the troubles, the counts of the queue, and the living processes."""
    store = house.store
    parts, notes, backlog, living, unoffered, failed = await asyncio.gather(
        examine(house.checks),
        house.notes(),
        store.jobs.backlog(),
        house.processes.living(),
        store.offers.unoffered(),
        store.failures.by_cause(since=house.now - HOUR_SECONDS),
    )
    troubles = [
        Trouble(kind="part", facts={"part": part, "words": words})
        for part, words in parts.items()
        if words != WELL
    ]
    troubles += [Trouble(kind="note", facts={"words": words}) for words in notes]
    roles = Counter(each.role for each in living)
    if not any(roles[role] for role in FRONTS):
        troubles.append(Trouble(kind="no_front", facts={}))
    models = sorted({model_and_size(lane)[0] for lane in unoffered})
    troubles += [Trouble(kind="unoffered", facts={"model": model}) for model in models]
    if backlog.oldest_seconds > LATE_SECONDS:
        facts = {"count": backlog.undelivered, "seconds": backlog.oldest_seconds}
        troubles.append(Trouble(kind="late", facts=facts))
    if count := sum(each.images for each in failed):
        troubles.append(Trouble(kind="failed", facts={"count": count}))
    return {"troubles": troubles, "parts": list(parts), "backlog": backlog, "living": living}
