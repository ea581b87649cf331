"""Deletes all data of a person or a server, for an operator."""

from __future__ import annotations

import asyncio

from bot.app.existing import with_store
from bot.config import Config
from bot.files import Artifacts, Files
from bot.files.erasure import forget
from bot.store import Store


def forget_now(
    config: Config, *, user_id: int | None, guild_id: int | None, job_id: str | None = None
) -> int:
    """Delete the data and the files of a person, of a job's person or of a server; return how many jobs.

    The person of a job that is not stored is unknown. Raises ConfigurationError or StoreUnavailable.
    """
    artifacts = Artifacts(config.queue.artifacts)

    async def act(store: Store) -> int:
        person = user_id if job_id is None else await store.erasure.person_of(job_id)
        if person is None and guild_id is None:
            return 0
        files = Files(store.files, artifacts)
        return await forget(store.erasure, files, user_id=person, guild_id=guild_id)

    return asyncio.run(with_store(config, act))
