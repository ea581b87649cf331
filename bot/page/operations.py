"""What operators look after: workers, failed pictures and their second try, messages, the devices' time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from bot.domain.errors import UnknownJob
from bot.domain.outbox import Outgoing
from bot.domain.time_units import DAY_SECONDS, HOUR_SECONDS
from bot.page.house import House
from bot.page.rights import rights_of
from bot.store.operations.failures import LOOKED_AT
from bot.store.rows.device_time import Grouping, priced

MOST_MESSAGES = 50
MOST_RETRIED = 200
DAYS = 30
PERIODS = {"hour": HOUR_SECONDS, "day": DAY_SECONDS, "week": 7 * DAY_SECONDS}


async def read_workers(house: House, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the workers, the living processes, and the demand by lane."""
    store = house.store
    workers, living, demand = await asyncio.gather(
        store.workers.now(), house.processes.living(), store.demands.rows()
    )
    of_name = {process.name: process for process in living}
    return {"workers": workers, "processes": of_name, "demand": demand, "rights": rights_of(query["role"])}


async def read_failures(house: House, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the causes of the chosen period, a day if none is chosen, and how many requests `ask` is about.

    `ask` is a cause that may be tried again.
    """
    period = _period(query)
    failures, since = house.store.failures, house.now - PERIODS[period]
    causes = await failures.by_cause(since=since)
    asked = next((each for each in causes if each.cause == query.get("ask")), None)
    requests = 0 if asked is None else len(await failures.jobs_of(asked.cause, since=since))
    facts = {"causes": causes, "period": period, "looked_at": LOOKED_AT, "rights": rights_of(query["role"])}
    return {**facts, "asked": asked, "requests": min(requests, MOST_RETRIED)}


async def retry(house: House, form: Mapping[str, object], actor_id: int) -> None:
    """Have the first MOST_RETRIED requests of a cause painted again."""
    since = house.now - PERIODS[_period({"period": str(form.get("period", ""))})]
    failures = house.store.failures
    for job_id in (await failures.jobs_of(str(form.get("cause", "")), since=since))[:MOST_RETRIED]:
        with suppress(UnknownJob):  # deleted meanwhile
            await failures.retry(job_id, actor_id)


def _period(query: Mapping[str, str]) -> str:
    period = query.get("period", "")
    return period if period in PERIODS else "day"


async def read_deliveries(house: House, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the counts of every kind, and the messages of the chosen one that are due longest."""
    kinds = [kind.value for kind in Outgoing]
    kind = query.get("kind", "")
    kind = kind if kind in kinds else Outgoing.RESULT.value
    waiting = {each.kind: each for each in await house.store.messages.waiting()}
    messages = await house.store.messages.unsent(Outgoing(kind), limit=MOST_MESSAGES)
    return {"kinds": kinds, "kind": kind, "waiting": waiting, "messages": messages}


async def read_usage(house: House, _query: Mapping[str, str]) -> dict[str, Any]:
    """Return the sums of the devices' time of the last DAYS days, by day and by model."""
    since = datetime.fromtimestamp(house.now, UTC).date() - timedelta(days=DAYS - 1)
    times = house.store.device_time
    days = priced(await times.sums([Grouping.DAY], since=since), house.usage.price)
    models = priced(await times.sums([Grouping.MODEL], since=since), house.usage.price)
    curves = {
        "pictures": [each.pictures for each in days],
        "hours": [each.device_seconds / HOUR_SECONDS for each in days],
        "cost": [each.cost or 0.0 for each in days] if all(each.cost is not None for each in days) else [],
    }
    return {"days": days, "models": models, "curves": curves, "currency": house.usage.currency}
