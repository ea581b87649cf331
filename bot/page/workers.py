"""The workers: what each paints now, and the demand beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from bot.domain.time_units import HOUR_SECONDS
from bot.page.house import House


async def read(house: House, _query: Mapping[str, str]) -> dict[str, Any]:
    """Return the workers, the living processes, the demand by lane, and the pictures of the last hour."""
    store = house.store
    workers, living, demand = await asyncio.gather(
        store.workers.now(), house.processes.living(), store.demands.rows()
    )
    of_name = {process.name: process for process in living}
    return {"workers": workers, "processes": of_name, "demand": demand, "hour": HOUR_SECONDS}
