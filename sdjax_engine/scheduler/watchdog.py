"""How long the devices keep the engine's thread waiting, and when they are stuck."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 20.0
"""How many times the usual duration of the work is waited for, besides `stuck_after`."""

Answer = TypeVar("Answer")


class Abandoned(BaseException):
    """Raised in a thread that waited for stuck devices and was replaced by another thread."""


class Watchdog:
    """Watches one thread's calls of the devices: that thread uses `call`, another thread uses `abandon`.

    A thread is abandoned only within a call of the devices, and ends right after it. So a change between two
    calls is made completely or not at all before another thread reads it.
    `stuck_after` is in seconds; 0 means that no call takes too long.
    """

    def __init__(self, *, clock: Callable[[], float], stuck_after: float) -> None:
        self._clock = clock
        self._stuck_after = stuck_after
        self._lock = threading.Lock()
        self._until: float | None = None
        self._abandoned = False

    def call(self, expected: float, function: Callable[..., Answer], *arguments: object) -> Answer:
        """Call the devices, which usually takes `expected` seconds, and return the result.

        Raises the error of the call, or Abandoned where the thread was abandoned meanwhile.
        """
        until = self._clock() + self._stuck_after + PATIENCE * expected
        with self._lock:
            self._until = until
        try:
            return function(*arguments)
        finally:
            with self._lock:
                self._until = None
                if self._abandoned:
                    raise Abandoned

    def abandon(self) -> bool:
        """Abandon the thread if its call takes too long, and return whether it is abandoned."""
        with self._lock:
            overdue = self._until is not None and self._clock() >= self._until
            if self._stuck_after and overdue:
                self._abandoned = True
            return self._abandoned
