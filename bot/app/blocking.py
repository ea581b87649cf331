"""Blocks persons and servers, for an operator."""

from __future__ import annotations

import asyncio

from bot.app.existing import with_store
from bot.config import Config
from bot.domain.time_units import HOUR_SECONDS
from bot.store import Store
from bot.store.rows.audit import OPERATOR, By
from bot.store.rows.restrictions import Restriction, Scope


def block_now(
    config: Config, *, user_id: int | None, guild_id: int | None, hours: int | None, reason: str
) -> Restriction | None:
    """Block a person everywhere, or a server; return the block that this replaces.

    Raises ConfigurationError or StoreUnavailable.
    """
    scope, by = _scope(user_id, guild_id), _operator(guild_id, reason)

    async def block(store: Store) -> Restriction | None:
        until = None if hours is None else store.clock() + hours * HOUR_SECONDS
        there = await store.moderation.by_operator()
        await store.moderation.block(scope, by, until=until)
        return next((each for each in there if each.scope == scope), None)

    return asyncio.run(with_store(config, block))


def unblock_now(config: Config, *, user_id: int | None, guild_id: int | None, reason: str) -> bool:
    """End the block of a person or a server; return whether there was one. Raises like `block_now`."""
    scope, by = _scope(user_id, guild_id), _operator(guild_id, reason)

    async def unblock(store: Store) -> bool:
        return await store.moderation.unblock(scope, by) is not None

    return asyncio.run(with_store(config, unblock))


def blocks_now(config: Config) -> list[Restriction]:
    """Return the operator's blocks that hold, in the order of their time; raises like `block_now`."""

    async def look(store: Store) -> list[Restriction]:
        return await store.moderation.by_operator()

    return asyncio.run(with_store(config, look))


def _scope(user_id: int | None, guild_id: int | None) -> Scope:
    return Scope(guild_id=guild_id or 0, user_id=user_id or 0)


def _operator(guild_id: int | None, reason: str) -> By:
    return By(actor_id=OPERATOR, guild_id=guild_id or 0, reason=reason)
