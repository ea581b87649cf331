"""The workers: what each paints now, and the demand beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from bot.page.house import House
from bot.page.rights import rights_of


async def read(house: House, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the workers, the living processes, and the demand by lane."""
    store = house.store
    workers, living, demand = await asyncio.gather(
        store.workers.now(), house.processes.living(), store.demands.rows()
    )
    of_name = {process.name: process for process in living}
    return {"workers": workers, "processes": of_name, "demand": demand, "rights": rights_of(query["role"])}
