"""Whether the devices keep the engine's thread waiting for so long that they count as stuck."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

PATIENCE = 20.0
"""How many times the usual duration of the work is waited for, besides `stuck_after`."""

Answer = TypeVar("Answer")


class Watchdog:
    """Watches one thread's calls of the devices: that thread uses `call`, another reads `is_overdue`.

    `stuck_after` is in seconds; 0 means that no call takes too long.
    """

    def __init__(self, *, clock: Callable[[], float], stuck_after: float) -> None:
        self._clock = clock
        self._stuck_after = stuck_after
        self._until: float | None = None

    def call(self, expected: float, function: Callable[..., Answer], *arguments: object) -> Answer:
        """Call the devices, which usually takes `expected` seconds; returns the result, raises the error."""
        self._until = self._clock() + self._stuck_after + PATIENCE * expected
        try:
            return function(*arguments)
        finally:
            self._until = None

    @property
    def is_overdue(self) -> bool:
        """Whether the call under way takes too long."""
        until = self._until
        return bool(self._stuck_after) and until is not None and self._clock() >= until
