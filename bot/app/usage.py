"""The devices' time and its costs, for an operator."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from bot.app.existing import with_store
from bot.config import Config
from bot.config.operators import UsageConfig
from bot.domain.time_units import HOUR_SECONDS
from bot.store import Store
from bot.store.rows.device_time import Grouping, Sum


@dataclass(frozen=True, kw_only=True)
class Usage:
    """The pictures of one group, the seconds of devices, and their cost; None where a price is missing."""

    group: tuple[str | int, ...]
    pictures: int
    device_seconds: float
    cost: float | None


def usage_now(
    config: Config, by: Sequence[Grouping], *, since: date | None, until: date | None
) -> list[Usage]:
    """Return the usage by these groupings; raises ConfigurationError or StoreUnavailable."""

    async def look(store: Store) -> list[Sum]:
        return await store.device_time.sums(by, since=since, until=until)

    sums = asyncio.run(with_store(config, look))
    found = priced(sums, config.usage)
    # By day: in the order of days. Otherwise the largest use comes first.
    return found if Grouping.DAY in by else sorted(found, key=lambda each: -each.device_seconds)


def priced(sums: Sequence[Sum], config: UsageConfig) -> list[Usage]:
    """Add the sums of each group over the classes of accelerators, and price them; in the order of `sums`."""
    groups: dict[tuple[str | int, ...], list[Sum]] = {}
    for each in sums:
        groups.setdefault(each.group, []).append(each)
    return [_priced(group, parts, config) for group, parts in groups.items()]


def _priced(group: tuple[str | int, ...], parts: Sequence[Sum], config: UsageConfig) -> Usage:
    prices = [config.price(part.accelerator) for part in parts]
    costs = [price * part.seconds / HOUR_SECONDS for price, part in zip(prices, parts, strict=True)]
    return Usage(
        group=group,
        pictures=sum(part.pictures for part in parts),
        device_seconds=sum(part.seconds for part in parts),
        cost=sum(costs) if all(prices) else None,
    )
