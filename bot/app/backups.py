"""Backs the configured queue up, and restores it, for an operator."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bot.backup import Made, Restored, make_backup, restore_backup
from bot.config import Config
from bot.files import Artifacts
from bot.store.database.opening import connect_database, make_database


def back_up_now(config: Config, place: Path, *, keep: int | None) -> Made:
    """Write a backup, beside a running bot; raises like `make_backup`, or ConfigurationError."""

    async def work() -> Made:
        database = connect_database(config.queue.database)
        try:
            return await make_backup(place, database, Artifacts(config.queue.artifacts), keep=keep)
        finally:
            await database.close()

    return asyncio.run(work())


def restore_now(config: Config, place: Path) -> Restored:
    """Restore a backup into empty places; raises like `restore_backup`, or ConfigurationError."""

    async def work() -> Restored:
        database = await make_database(config.queue.database)
        try:
            return await restore_backup(place, database, Artifacts(config.queue.artifacts))
        finally:
            await database.close()

    return asyncio.run(work())
