"""Deletes all data of a person or a server, for an operator."""

from __future__ import annotations

import asyncio

from bot.app.existing import with_store
from bot.config import Config
from bot.erasure import forget
from bot.files import Artifacts, Files
from bot.store import Store


def forget_now(config: Config, *, user_id: int | None, guild_id: int | None) -> int:
    """Delete the data and the files; return how many jobs. Raises ConfigurationError or StoreUnavailable."""
    return asyncio.run(_forget(config, user_id=user_id, guild_id=guild_id))


async def _forget(config: Config, *, user_id: int | None, guild_id: int | None) -> int:
    artifacts = Artifacts(config.queue.artifacts)

    async def act(store: Store) -> int:
        return await forget(store.erasure, Files(store.files, artifacts), user_id=user_id, guild_id=guild_id)

    return await with_store(config, act)
