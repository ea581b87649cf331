"""The failed images of the last days, by cause."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.domain.time_units import DAY_SECONDS, HOUR_SECONDS
from bot.page.house import House
from bot.store.operations.failures import LOOKED_AT

PERIODS = {"hour": HOUR_SECONDS, "day": DAY_SECONDS, "week": 7 * DAY_SECONDS}


async def read(house: House, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the causes of the chosen period, a day if none is chosen."""
    period = query.get("period", "")
    period = period if period in PERIODS else "day"
    causes = await house.store.failures.by_cause(since=house.now - PERIODS[period])
    return {"causes": causes, "period": period, "periods": list(PERIODS), "looked_at": LOOKED_AT}
