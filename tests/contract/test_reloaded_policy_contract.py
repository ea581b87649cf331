"""A change of the operator's policy, bounds or weights holds at the next request, despite kept policies."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from bot.front.services.request import Request
from bot.front.services.standing import Operator, ServerCache
from bot.moderation.policy import Policy
from bot.store import Store
from bot.store.moderation.policies import PolicyScope
from bot.store.rows.audit import By

HERE, CHANNEL, MINA = 21, 31, 11
MEMBER: Any = SimpleNamespace(id=MINA, roles=())


@pytest.mark.parametrize("changed", ["policy", "bounds"])
async def test_kept_policies_are_decided_with_the_operator_s_present_ones(store: Store, changed: str) -> None:
    await store.policies.put(PolicyScope.SERVER, HERE, {"variants": 4}, By(actor_id=MINA, guild_id=HERE))
    operator = Operator(policy=Policy(steps=50), bounds=Policy(steps=50))
    servers = ServerCache()

    async def steps() -> float | None:
        services: Any = SimpleNamespace(store=store, servers=servers, operator=operator)
        interaction: Any = SimpleNamespace(guild_id=HERE, channel_id=CHANNEL, channel=None)
        request = Request(interaction=interaction, services=services)
        return (await request.standing_of(MEMBER)).policy.steps

    assert await steps() == 50
    operator = replace(operator, **{changed: Policy(steps=9)})
    assert await steps() == 9
