"""Turns at a job's message: who edits it holds its lock, so that a late edit never covers the result."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary


class Turns:
    """One lock a job, for as long as someone holds or awaits it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, job_id: str) -> asyncio.Lock:
        """The lock to hold while reading the job's state and editing its message."""
        lock = self._locks.get(job_id)
        if lock is None:
            lock = self._locks[job_id] = asyncio.Lock()
        return lock
