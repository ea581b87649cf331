"""Watches whether the event loop stands still, and says what it was at when it did.

While the loop is held, nobody's command is acknowledged and no heartbeat leaves.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable

from bot.metrics import STALL_SECONDS, LoopMetrics

log = logging.getLogger(__name__)

TICK_SECONDS = 0.05
FRAMES = 6  # of the innermost calls, as many as say where it is


class StallWatch:
    """Measures the lag of the loop that runs it; a thread looks at what holds the loop, while it is held."""

    def __init__(
        self,
        metrics: LoopMetrics,
        *,
        limit: float = STALL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._metrics = metrics
        self._limit = limit
        self._clock = clock
        self._due = clock()
        self._longest = 0.0
        self._seen = ""
        self._loop_thread = threading.get_ident()
        self._ended = threading.Event()

    async def run(self) -> None:
        """Watch for ever; must be run on the loop's thread."""
        self._loop_thread = threading.get_ident()
        self._due = self._clock() + TICK_SECONDS
        threading.Thread(target=self._look, name="stall watch", daemon=True).start()
        try:
            while True:
                self._due = self._clock() + TICK_SECONDS
                await asyncio.sleep(TICK_SECONDS)
                self._note(self._clock() - self._due)
        finally:
            self._ended.set()

    def _note(self, lag: float) -> None:
        self._metrics.lag.observe(max(0.0, lag))
        seen, self._seen = self._seen, ""
        if lag <= self._limit:
            return
        self._metrics.stalls.inc()
        self._longest = max(self._longest, lag)
        self._metrics.longest.set(self._longest)
        log.warning("the event loop stood still for %.2f s%s", lag, f" at {seen}" if seen else "")

    def _look(self) -> None:
        """The thread: remember where the loop is whenever it is late."""
        while not self._ended.wait(TICK_SECONDS):
            if not self._seen and self._clock() - self._due > self._limit / 2:
                self._seen = place_of(self._loop_thread)


def place_of(thread: int) -> str:
    """Where a thread is, from the innermost call outwards; empty once it has ended."""
    frame = sys._current_frames().get(thread)
    if frame is None:
        return ""
    calls = traceback.extract_stack(frame)[-FRAMES:]
    return " < ".join(f"{call.name} ({call.filename}:{call.lineno})" for call in reversed(calls))
