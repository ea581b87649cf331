"""The filling of a shared cache folder: one worker of each class compiles, and the others wait until it has.

The filling worker holds a lock on a file. The kernel releases the lock when the process ends, and the next
worker fills. Once all programs are there, an empty file says so, and nobody waits any more.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import logging
import os
import time
from contextlib import suppress
from pathlib import Path

from bot.config import Config
from bot.process.threads import in_uninterruptible_thread
from sdjax_engine.compiling.executables import source_digest
from sdjax_engine.engine import Engine

log = logging.getLogger(__name__)

POLL_SECONDS = 0.5
LONGEST_WAIT = 3600.0  # seconds: another worker may hang, or a file server may keep a dead machine's lock


class Turn:
    """The turn to fill the cache folder; without a `handle` this process does not fill it."""

    def __init__(self, handle: int | None = None, filled: Path | None = None) -> None:
        self._handle = handle
        self._filled = filled
        self._following: asyncio.Task[None] | None = None

    def follow(self, engine: Engine) -> None:
        """End the turn once the engine has made everything on offer ready; the folder then counts as full."""
        if self._handle is not None:
            self._following = asyncio.create_task(self._follow(engine), name="filling of the cache")

    async def close(self) -> None:
        """Let the next worker have the turn."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        self._end()

    async def _follow(self, engine: Engine) -> None:
        while not await in_uninterruptible_thread(lambda: engine.wait_until_ready(POLL_SECONDS)):
            pass
        if self._filled is not None:
            try:
                await in_uninterruptible_thread(self._filled.touch)
            except OSError as error:
                log.warning("the next worker fills the cache folder again: %s", error)
        self._end()

    def _end(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)


async def wait_for_cache(config: Config) -> Turn:
    """Wait until the folder of compiled programs is full, or until it is this process's turn to fill it.

    The wait has a limit, after which each worker compiles for itself. For a folder that cannot be used
    there is no wait: the engine says why it cannot.
    """
    section = config.engine
    if not (section.cache_wait and section.cache_dir):
        return Turn()
    folder, key = Path(section.cache_dir), cache_key(config)
    filled, told = folder / f"filled-{key}", False
    mode = 0o660 if section.cache_group else 0o600
    ends = time.monotonic() + LONGEST_WAIT
    while True:
        try:
            if await in_uninterruptible_thread(filled.exists):
                return Turn()
            handle = await in_uninterruptible_thread(lambda: _try_lock(folder / f"filling-{key}.lock", mode))
        except OSError as error:
            log.warning("this worker does not wait for the cache folder %s: %s", folder, error)
            return Turn()
        if handle is not None:
            return Turn(handle, filled)
        if not told:
            log.info("another worker fills the cache folder %s: waiting for it", folder)
            told = True
        if time.monotonic() > ends:
            log.warning("the cache folder %s is still not filled: this worker compiles for itself", folder)
            return Turn()
        await asyncio.sleep(POLL_SECONDS)


def cache_key(config: Config) -> str:
    """Return a name for what workers of this class and configuration compile, with this code."""
    models = [model.model_dump(mode="json", exclude={"licence", "licence_link"}) for model in config.models]
    engine = config.engine.model_dump(mode="json", exclude={"cache_dir", "cache_group", "cache_wait"})
    facts = json.dumps([models, engine, source_digest()], sort_keys=True)
    return hashlib.sha256(facts.encode()).hexdigest()[:16]


def _try_lock(file: Path, mode: int) -> int | None:
    file.parent.mkdir(mode=0o770 if mode == 0o660 else 0o700, parents=True, exist_ok=True)
    handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    try:
        with suppress(PermissionError):  # another user owns the file, and has set the same mode
            os.fchmod(handle, mode)  # the umask may have taken the group's right
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if isinstance(error, BlockingIOError):
            return None
        raise
    return handle
