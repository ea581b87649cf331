"""Files and what the store knows of them, kept together: announced before written, let go before deleted."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection

from bot.artifacts import Artifacts
from bot.errors import StoreUnavailable
from bot.store.files import GOING_SECONDS
from bot.store.store import Store

log = logging.getLogger(__name__)

ATTEMPTS = 20
PAUSE_SECONDS = 0.1  # a deletion takes milliseconds


async def keep(store: Store, artifacts: Artifacts, data: bytes, suffix: str) -> str:
    """Store `data` and return its name; from before it is written until a while after no sweep deletes it.

    Raises StoreUnavailable.
    """
    name = await artifacts.name(data, suffix)
    for _ in range(ATTEMPTS):
        if await store.expect_file(name, size=len(data)):
            return await artifacts.put(data, suffix)
        await asyncio.sleep(PAUSE_SECONDS)
    raise StoreUnavailable(f"The file {name} is being deleted.")


async def drop(store: Store, artifacts: Artifacts, names: Collection[str]) -> int:
    """Delete the files of `names`, which the store has let go; how many are gone.

    What cannot be deleted now, or not in time, stays chosen, and a later sweep tries again.
    """
    deleted: list[str] = []
    until = time.monotonic() + GOING_SECONDS / 2  # after all of it, others may write files of these names
    for name in names:
        if time.monotonic() > until:
            break
        try:
            await artifacts.delete(name)
        except StoreUnavailable as error:
            log.warning("the file %s is still there: %s", name, error)
        except ValueError as error:  # no file of ours has such a name: there is nothing to delete
            log.warning("%s", error)
            deleted.append(name)
        else:
            deleted.append(name)
    if deleted:
        await store.files_deleted(deleted)
    return len(deleted)
