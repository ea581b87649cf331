"""What policies add to a command: reading what holds for a person, deciding, and counting their quotas.

    python benchmarks/policies.py

A server with 200 policies and 50 rules on prompts. A person with ten roles, in a thread, has asked for 300
pictures today.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path

from conditions import print_conditions
from store_evening import origin
from store_verbs import request

from bot.domain.quotas import Charge, Quota
from bot.front.services.standing import Operator, ServerCache
from bot.moderation.limits import refusal
from bot.store import Store
from bot.store.moderation.policies import PolicyScope
from bot.store.moderation.prompt_rules import PromptRule
from bot.store.moderation.standing import Requester
from bot.store.rows.audit import By

HERE, THREAD, CHANNEL, MINA = 1, 300, 301, 11
BY = By(actor_id=MINA, guild_id=HERE)
TIMES = 200
PLACE = Requester(user_id=MINA, guild_id=HERE, channel_ids=(THREAD, CHANNEL), role_ids=tuple(range(400, 410)))
PER_HOUR = {"pictures_per_hour": 5000, "pictures_per_day": 9000, "cost_per_hour": 5000, "cost_per_day": 9000}


async def median_ms(what: Callable[[], Awaitable[object]]) -> float:
    """Return the median of `TIMES` calls, in milliseconds."""
    taken = []
    for _ in range(TIMES):
        began = time.perf_counter()
        await what()
        taken.append(1000 * (time.perf_counter() - began))
    return statistics.median(taken)


async def fill(store: Store) -> None:
    """Write the policies, the rules and the charges."""
    await store.policies.put(PolicyScope.SERVER, HERE, PER_HOUR | {"steps": 50}, BY)
    for number in range(100):
        await store.policies.put(PolicyScope.ROLE, 400 + number, {"steps": 30 + number, "variants": 9}, BY)
        await store.policies.put(PolicyScope.CHANNEL, 300 + number, {"cool_down": 0, "previews": True}, BY)
    for number in range(50):
        await store.prompt_rules.put(PromptRule(name=f"rule {number}", terms=("x", "y")), BY)


async def measure(store: Store) -> dict[str, float]:
    """Return the figures, in milliseconds."""
    numbers = count(1)
    await fill(store)

    servers, operator = ServerCache(), Operator()

    async def decide() -> tuple[Quota, ...]:
        found = await servers.standing(store, PLACE, operator)
        refusal(found.policy, request(1, MINA, variants=1)[0])
        return found.quotas

    async def decide_first() -> tuple[Quota, ...]:
        nonlocal servers
        servers = ServerCache()
        return await decide()

    quotas = await decide()

    async def ask(*counted: Quota) -> None:
        number = next(numbers)
        recipe, _ = request(number, MINA, variants=1)
        charge = Charge(pictures=1, cost=1.0, quotas=counted)
        await store.jobs.enqueue(recipe, origin(number, MINA), charge=charge)

    for _ in range(300):
        await ask()
    return {
        "blocks, pauses and the revision, read": await median_ms(lambda: store.standings.of(PLACE)),
        "with policies, decided": await median_ms(decide),
        "the same after a change, all policies and rules read": await median_ms(decide_first),
        "a request without quotas": await median_ms(ask),
        f"a request with {len(quotas)} quotas": await median_ms(lambda: ask(*quotas)),
    }


async def main() -> None:
    """Print the conditions and the figures."""
    print_conditions("sqlalchemy", "aiosqlite")
    with tempfile.TemporaryDirectory() as folder:
        store = await Store.open(f"sqlite+aiosqlite:///{Path(folder) / 'queue.sqlite3'}")
        try:
            for name, taken in (await measure(store)).items():
                print(f"{name}: {taken:.2f} ms")
        finally:
            await store.close()


if __name__ == "__main__":
    asyncio.run(main())
