"""Files and their rows, changed in the order that loses nothing.

keep     row ──► file      a sweep never deletes a file whose row is there
drop     file ──► row      a row says that its file may be there until the file is gone
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection
from dataclasses import dataclass

from bot.domain.errors import StoreUnavailable
from bot.domain.file_states import DELETION_SECONDS
from bot.files.artifacts import Artifacts
from bot.store.files.picture_files import Files as Rows

log = logging.getLogger(__name__)

ATTEMPTS = 20
PAUSE_SECONDS = 0.1  # a deletion takes milliseconds


@dataclass(frozen=True, kw_only=True)
class KeptFile:
    """A file that was kept, and when the store counted it as used."""

    name: str
    used_at: float


class Files:
    """Keeps files in `artifacts` and their rows in `rows`; its methods raise StoreUnavailable."""

    def __init__(self, rows: Rows, artifacts: Artifacts) -> None:
        self._rows = rows
        self._artifacts = artifacts

    async def keep(self, data: bytes, suffix: str) -> str:
        """Store `data` and return its name; no sweep deletes the file before a job can name it."""
        return (await self.keep_for_now(data, suffix)).name

    async def keep_for_now(self, data: bytes, suffix: str) -> KeptFile:
        """Store `data` as a file that `take_back` may delete again."""
        name = await self._artifacts.name(data, suffix)
        for _ in range(ATTEMPTS):
            used_at = await self._rows.expect(name, size=len(data))
            if used_at is not None:
                return KeptFile(name=await self._artifacts.put(data, suffix), used_at=used_at)
            await asyncio.sleep(PAUSE_SECONDS)
        raise StoreUnavailable(f"The file {name} is being deleted.")

    async def take_back(self, kept: Collection[KeptFile]) -> None:
        """Delete the files of a refused request, unless another request uses them by now."""
        await self.drop(await self._rows.drop_unused({file.name: file.used_at for file in kept}))

    async def drop(self, names: Collection[str]) -> int:
        """Delete files that the store has chosen, and return how many are gone.

        A file that cannot be deleted, or not in time, stays chosen, and a later sweep tries again.
        """
        deleted: list[str] = []
        until = time.monotonic() + DELETION_SECONDS / 2  # later, other processes may write these files again
        for name in names:
            if time.monotonic() > until:
                break
            try:
                await self._artifacts.delete(name)
            except StoreUnavailable as error:
                log.warning("the file %s is still there: %s", name, error)
            except ValueError as error:  # no kept file has such a name: there is nothing to delete
                log.warning("%s", error)
                deleted.append(name)
            else:
                deleted.append(name)
        if deleted:
            await self._rows.note_deleted(deleted)
        return len(deleted)
