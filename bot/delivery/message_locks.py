"""A lock for each job's message: its holder alone edits the message, so progress never covers a result."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary


class MessageLocks:
    """One lock per job. A lock is dropped once nothing holds or awaits it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, job_id: str) -> asyncio.Lock:
        """Return the lock to hold while reading the job's state and editing its message."""
        lock = self._locks.get(job_id)
        if lock is None:
            lock = self._locks[job_id] = asyncio.Lock()
        return lock
