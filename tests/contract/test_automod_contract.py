"""The switch of AutoMod's rules, on every database."""

from __future__ import annotations

import asyncio

from bot.store import Store
from bot.store.rows.audit import Act, By

HERE, THERE, MINA = 21, 22, 11
BY = By(actor_id=MINA, guild_id=HERE)


async def test_the_rules_are_applied_until_a_moderator_says_otherwise(store: Store) -> None:
    assert await store.automod.is_applied(HERE)
    await store.automod.apply(False, BY)
    assert not await store.automod.is_applied(HERE)
    assert await store.automod.is_applied(THERE)
    await store.automod.apply(True, BY)
    assert await store.automod.is_applied(HERE)


async def test_each_change_is_in_the_log_once(store: Store) -> None:
    await asyncio.gather(*(store.automod.apply(False, BY) for _ in range(3)))
    await store.automod.apply(True, BY)
    entries = await store.moderation.entries(HERE, limit=9)
    assert [(entry.act, entry.actor_id, entry.before, entry.after) for entry in entries[-2:]] == [
        (Act.RULE, MINA, {"name": "AutoMod", "applied": False}, {"name": "AutoMod", "applied": True}),
        (Act.RULE, MINA, {"name": "AutoMod", "applied": True}, {"name": "AutoMod", "applied": False}),
    ]
    assert len(entries) == 2


async def test_the_switch_goes_with_its_server(store: Store) -> None:
    await store.automod.apply(False, BY)
    assert await store.erasure.servers() == {HERE}
    await store.erasure.erase_preferences(guild_id=HERE)
    assert await store.automod.is_applied(HERE)
    assert await store.erasure.servers() == set()
