"""Blocks persons and servers, for an operator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from bot.config import Config
from bot.store import Store
from bot.store.auditing import OPERATOR, By
from bot.store.moderation import Scope

HOUR_SECONDS = 3600.0

T = TypeVar("T")


def block_now(
    config: Config, *, user_id: int | None, guild_id: int | None, hours: int | None, reason: str
) -> None:
    """Block a person everywhere, or a server; raises ConfigurationError or StoreUnavailable."""
    scope, by = _scope(user_id, guild_id), _operator(guild_id, reason)

    async def block(store: Store) -> None:
        until = None if hours is None else store.clock() + hours * HOUR_SECONDS
        await store.moderation.block(scope, by, until=until)

    asyncio.run(with_store(config, block))


def unblock_now(config: Config, *, user_id: int | None, guild_id: int | None, reason: str) -> bool:
    """End such a block, and return whether there was one; raises like `block_now`."""
    scope, by = _scope(user_id, guild_id), _operator(guild_id, reason)

    async def unblock(store: Store) -> bool:
        return await store.moderation.unblock(scope, by) is not None

    return asyncio.run(with_store(config, unblock))


def _scope(user_id: int | None, guild_id: int | None) -> Scope:
    return Scope(guild_id=guild_id or 0, user_id=user_id or 0)


def _operator(guild_id: int | None, reason: str) -> By:
    return By(actor_id=OPERATOR, guild_id=guild_id or 0, reason=reason)


async def with_store(config: Config, act: Callable[[Store], Awaitable[T]]) -> T:
    """Return what `act` returns with the configured store open."""
    store = await Store.open(config.queue.database)
    try:
        return await act(store)
    finally:
        await store.close()
