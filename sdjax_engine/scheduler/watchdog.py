"""How long the devices keep the engine's thread waiting, and when that is too long."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 20.0
"""How many times what the work usually takes is waited for, besides `stuck_after`."""

Answer = TypeVar("Answer")


class Abandoned(BaseException):
    """The thread that this is raised in waited for stuck devices; another has taken its place."""


class Watchdog:
    """Watches one thread's calls of the devices; that uses `call`, another asks whether to `abandon` it.

    A thread is only ever abandoned within a call of the devices, and ends right after it. What it changes
    between two calls is therefore changed completely, or not at all, before another thread reads it.
    `stuck_after` is in seconds; 0 means that no call takes too long.
    """

    def __init__(self, *, clock: Callable[[], float], stuck_after: float) -> None:
        self._clock = clock
        self._stuck_after = stuck_after
        self._lock = threading.Lock()
        self._until: float | None = None
        self._abandoned = False

    def call(self, expected: float, function: Callable[..., Answer], *arguments: object) -> Answer:
        """Return what a call of the devices returns, which usually takes `expected` seconds.

        Raises what the call raises, or Abandoned where the thread was abandoned meanwhile.
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
