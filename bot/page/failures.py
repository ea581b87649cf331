"""The failed images of the last days, by cause, and their second try."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from bot.domain.errors import UnknownJob
from bot.domain.time_units import DAY_SECONDS, HOUR_SECONDS
from bot.page.house import House
from bot.page.rights import rights_of
from bot.store.operations.failures import LOOKED_AT

MOST_RETRIED = 200
PERIODS = {"hour": HOUR_SECONDS, "day": DAY_SECONDS, "week": 7 * DAY_SECONDS}


async def read(house: House, query: Mapping[str, str]) -> dict[str, Any]:
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
