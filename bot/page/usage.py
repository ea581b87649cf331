"""The devices' time of the last month, by day and by model."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from bot.domain.time_units import HOUR_SECONDS
from bot.page.house import House
from bot.store.rows.device_time import Grouping, priced

DAYS = 30


async def read(house: House, _query: Mapping[str, str]) -> dict[str, Any]:
    """Return the sums of the last DAYS days."""
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
