"""Blocks pictures in every server, for an operator."""

from __future__ import annotations

import asyncio

from bot.app.existing import with_store
from bot.config import Config
from bot.store import Store
from bot.store.rows.audit import EVERYWHERE, OPERATOR, By
from bot.store.rows.hashes import Blocked


def block_picture_now(config: Config, number: int, *, reason: str) -> bool:
    """Block the picture of this hash; False where it is blocked. Raises like `block_now`."""

    async def block(store: Store) -> bool:
        return await store.known.block(number, _operator(reason))

    return asyncio.run(with_store(config, block))


def unblock_picture_now(config: Config, number: int, *, reason: str) -> bool:
    """Unblock the picture of this hash; False where it is not blocked. Raises like `block_now`."""

    async def unblock(store: Store) -> bool:
        return await store.known.unblock(number, _operator(reason))

    return asyncio.run(with_store(config, unblock))


def blocked_pictures_now(config: Config) -> list[Blocked]:
    """Return the pictures that are blocked in every server; raises like `block_now`."""

    async def look(store: Store) -> list[Blocked]:
        return await store.known.blocked(EVERYWHERE)

    return asyncio.run(with_store(config, look))


def _operator(reason: str) -> By:
    return By(actor_id=OPERATOR, guild_id=EVERYWHERE, reason=reason)
