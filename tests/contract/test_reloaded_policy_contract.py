"""A change of the operator's policy, bounds or weights holds at the next request, despite kept policies."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bot.front.requests.standing import read_held
from bot.front.services.server_cache import ServerCache
from bot.moderation.policy import Policy
from bot.store import Store
from bot.store.moderation.policies import PolicyScope
from bot.store.rows.audit import By

HERE, CHANNEL, MINA = 21, 31, 11
MEMBER: Any = SimpleNamespace(id=MINA, roles=())


@pytest.mark.parametrize("changed", ["policy", "bounds"])
async def test_kept_policies_are_decided_with_the_operator_s_present_ones(store: Store, changed: str) -> None:
    await store.policies.put(PolicyScope.SERVER, HERE, {"variants": 4}, By(actor_id=MINA, guild_id=HERE))
    operator: dict[str, Any] = {"policy": Policy(steps=50), "bounds": Policy(steps=50), "weights": {}}
    servers = ServerCache()

    async def steps() -> float | None:
        services = SimpleNamespace(store=store, servers=servers, weight_of=lambda _: 1.0, **operator)
        client = SimpleNamespace(services=services)
        interaction: Any = SimpleNamespace(client=client, guild_id=HERE, channel_id=CHANNEL, channel=None)
        return (await read_held(interaction, MEMBER)).policy.steps

    assert await steps() == 50
    operator[changed] = Policy(steps=9)
    assert await steps() == 9
