"""The devices' time of the last month, by day and by model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from bot.config.operators import UsageConfig
from bot.domain.time_units import HOUR_SECONDS
from bot.page.house import House
from bot.store.rows.device_time import Grouping, Sum

DAYS = 30


@dataclass(frozen=True, kw_only=True)
class Row:
    """The pictures, the hours of devices and the cost of one group; None without a price."""

    name: str
    pictures: int
    hours: float
    cost: float | None


async def read(house: House, _query: Mapping[str, str]) -> dict[str, Any]:
    """Return the sums of the last DAYS days."""
    since = datetime.fromtimestamp(house.now, UTC).date() - timedelta(days=DAYS - 1)
    times = house.store.device_time
    days = _rows(await times.sums([Grouping.DAY], since=since), house.usage)
    models = _rows(await times.sums([Grouping.MODEL], since=since), house.usage)
    most = max((row.pictures for row in days), default=0)
    return {"days": days, "models": models, "most": most, "currency": house.usage.currency}


def _rows(sums: list[Sum], config: UsageConfig) -> list[Row]:
    groups: dict[str, list[Sum]] = {}
    for each in sums:
        groups.setdefault(str(each.group[0]), []).append(each)
    return [_row(name, parts, config) for name, parts in groups.items()]


def _row(name: str, parts: list[Sum], config: UsageConfig) -> Row:
    prices = [config.price(part.accelerator) for part in parts]
    costs = [price * part.seconds / HOUR_SECONDS for price, part in zip(prices, parts, strict=True)]
    return Row(
        name=name,
        pictures=sum(part.pictures for part in parts),
        hours=sum(part.seconds for part in parts) / HOUR_SECONDS,
        cost=sum(costs) if all(prices) else None,
    )
