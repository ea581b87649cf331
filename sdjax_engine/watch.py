"""How long the devices keep the engine's thread waiting, and when that is too long."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 20.0
"""How many times what the work usually takes is waited for, besides `stuck_after`."""


class Abandoned(BaseException):
    """The thread that this is raised in waited for stuck devices; another has taken its place."""


class Watch:
    """Watches one thread's waits; the thread uses `blocked`, another asks whether to `abandon` it.

    `stuck_after` is in seconds; 0 means that no wait is too long.
    """

    def __init__(self, *, clock: Callable[[], float], stuck_after: float) -> None:
        self._clock = clock
        self._stuck_after = stuck_after
        self._lock = threading.Lock()
        self._until: float | None = None
        self._abandoned = False
        self._ended = 0

    @property
    def ended(self) -> int:
        """How many waits have come to their end."""
        return self._ended

    @contextmanager
    def blocked(self, expected: float) -> Iterator[None]:
        """Say that the devices are waited for within, usually `expected` seconds.

        Raises Abandoned at the end where the thread has been given up meanwhile.
        """
        with self._lock:
            self._until = self._clock() + self._stuck_after + PATIENCE * expected
        try:
            yield
        finally:
            with self._lock:
                self._until = None
                self._ended += 1
                if self._abandoned:
                    raise Abandoned

    def abandon(self) -> bool:
        """Give the thread up if it has waited for too long, and return whether it is so."""
        with self._lock:
            if not self._stuck_after or self._until is None or self._clock() < self._until:
                return False
            self._abandoned = True
            return True
