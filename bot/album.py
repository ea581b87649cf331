"""Files and what the store knows of them, kept together: announced before written, let go before deleted."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

from bot.artifacts import Artifacts
from bot.errors import StoreUnavailable
from bot.jobs import Job
from bot.store.files import GOING_SECONDS
from bot.store.store import Store

log = logging.getLogger(__name__)

ATTEMPTS = 20
FORGOTTEN_AT_ONCE = 25
PAUSE_SECONDS = 0.1  # a deletion takes milliseconds


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A file that was kept, and when the store counted it as used."""

    name: str
    used_at: float


async def keep(store: Store, artifacts: Artifacts, data: bytes, suffix: str) -> str:
    """Store `data` and return its name; from before it is written until a while after no sweep deletes it.

    Raises StoreUnavailable.
    """
    return (await keep_for_now(store, artifacts, data, suffix)).name


async def keep_for_now(store: Store, artifacts: Artifacts, data: bytes, suffix: str) -> Kept:
    """As `keep`, for a file that `take_back` may delete again."""
    name = await artifacts.name(data, suffix)
    for _ in range(ATTEMPTS):
        used_at = await store.files.expect(name, size=len(data))
        if used_at is not None:
            return Kept(name=await artifacts.put(data, suffix), used_at=used_at)
        await asyncio.sleep(PAUSE_SECONDS)
    raise StoreUnavailable(f"The file {name} is being deleted.")


async def take_back(store: Store, artifacts: Artifacts, kept: Collection[Kept]) -> None:
    """Delete files that were kept for a request that was refused, unless another uses them by now."""
    chosen = await store.files.drop_unused({file.name: file.used_at for file in kept})
    await drop(store, artifacts, chosen)


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
        await store.files.note_deleted(deleted)
    return len(deleted)


async def _leave_alone(_jobs: Sequence[Job]) -> None:
    """What is done with jobs before they are forgotten, where nothing is to be done."""


async def forget(
    store: Store,
    artifacts: Artifacts,
    *,
    user_id: int | None = None,
    guild_id: int | None = None,
    first: Callable[[Sequence[Job]], Awaitable[None]] = _leave_alone,
) -> int:
    """Delete all jobs of one person or of one server with their files, the newest first; how many.

    `first` is called with some jobs at a time before their rows go: what dies in between can be begun again.
    """
    forgotten = 0
    while jobs := await store.erasure.jobs_of(user_id=user_id, guild_id=guild_id, limit=FORGOTTEN_AT_ONCE):
        await first(jobs)
        await drop(store, artifacts, await store.erasure.erase([job.id for job in jobs]))
        forgotten += len(jobs)
    if user_id is not None:
        await store.erasure.erase_share(user_id)
    return forgotten
