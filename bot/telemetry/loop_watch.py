"""Measures how late the event loop is, and logs which call held it.

While the loop is held, no command is acknowledged and no heartbeat is sent. There are three causes:

- A long call on the loop's own thread. A second thread reads the loop's frames meanwhile.
- Native code in any thread that keeps the interpreter lock. The second thread cannot run meanwhile. It reads
  the frames of all threads as soon as it has the lock: the native call has just returned.
- No processor for the process. Linux tells how long a thread waited for one.

Frames are read with the interpreter lock held, never by `faulthandler`. It reads them without the lock: a
thread that runs meanwhile may free them, and the process ends with a segmentation fault.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path, PurePath
from types import FrameType

from bot.telemetry.metrics import STALL_SECONDS, LoopMetrics

log = logging.getLogger(__name__)

TICK_SECONDS = 0.05
FRAMES = 6  # innermost calls in a log line
RUN_DELAYS = Path("/proc/thread-self/schedstat")  # ns on a processor, ns waiting for one, time slices
OLDEST_GENERATION = 2  # the only garbage collection that can take long
WAITING = frozenset({"threading.py", "selectors.py", "queue.py"})  # threads there do not hold the lock


class Lateness:
    """How late the calling thread wakes after each tick, and how much of that it waited for a processor."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._delay = run_delay()
        self.due = clock() + TICK_SECONDS

    def restart(self) -> None:
        """Begin the next tick."""
        self._delay = run_delay()
        self.due = self._clock() + TICK_SECONDS

    def seconds(self) -> tuple[float, float]:
        """Return the seconds since the tick was due, and how many of them were a wait for a processor."""
        late = max(0.0, self._clock() - self.due)
        return late, min(late, run_delay() - self._delay)


class LoopWatch:
    """Measures the lag of the event loop that runs it. A thread reads which call holds the loop."""

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
        self._held_at = ""
        self._loop_thread = threading.get_ident()
        self._ended = threading.Event()

    async def run(self) -> None:
        """Watch until cancelled. Must run on the loop's thread."""
        self._loop_thread = threading.get_ident()
        self._due = self._clock() + TICK_SECONDS
        collections = CollectionWatch(self._limit, self._clock)
        gc.callbacks.append(collections)
        threading.Thread(target=self._read_frames, name="loop watch", daemon=True).start()
        lateness, used = Lateness(self._clock), time.thread_time()
        try:
            while True:
                lateness.restart()
                self._due = lateness.due
                await asyncio.sleep(TICK_SECONDS)
                self._note(*lateness.seconds())
                before, used = used, time.thread_time()
                self._metrics.processor.inc(used - before)
        finally:
            self._ended.set()
            gc.callbacks.remove(collections)

    def _note(self, lag: float, starved: float) -> None:
        self._metrics.lag.observe(lag)
        self._metrics.starved.inc(starved)
        held_at, self._held_at = self._held_at, ""
        if lag <= self._limit:
            return
        self._metrics.stalls.inc()
        if lag - starved <= self._limit:
            self._metrics.starved_stalls.inc()
        self._longest = max(self._longest, lag)
        self._metrics.longest.set(self._longest)
        log.warning(
            "the event loop was blocked for %.2f s, %.2f s of them without a processor%s",
            *(lag, starved, f", at {held_at}" if held_at else ""),
        )

    def _read_frames(self) -> None:
        """Run in the second thread: note where a late loop is, log which threads may have kept the lock."""
        lateness = Lateness(self._clock)
        while True:
            lateness.restart()
            ended = self._ended.wait(TICK_SECONDS)
            overdue = self._clock() - lateness.due > self._limit
            places = places_of_others() if overdue else []  # before any call that lets other threads run
            if ended:
                return
            late, starved = lateness.seconds()
            if late - starved > self._limit:
                log.warning(
                    "no thread could run Python for %.2f s: one of these kept the interpreter lock: %s",
                    *(late - starved, "; ".join(place for place, _ in places) or "none was seen"),
                )
                for place, calls in places:
                    log.debug("%s was called by %s", place, calls)
            elif late < self._limit / 2 < self._clock() - self._due and not self._held_at:
                self._held_at = place_of(self._loop_thread)


def run_delay() -> float:
    """Return how many seconds the calling thread has waited for a processor so far; 0 except on Linux."""
    try:
        return int(RUN_DELAYS.read_bytes().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


class CollectionWatch:
    """Logs garbage collections that take longer than `limit` seconds: every thread waits for them."""

    def __init__(self, limit: float, clock: Callable[[], float]) -> None:
        self._limit = limit
        self._clock = clock
        self._began = 0.0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        """The callback for `gc.callbacks`."""
        if info["generation"] < OLDEST_GENERATION:
            return
        if phase == "start":
            self._began = self._clock()
        elif (seconds := self._clock() - self._began) > self._limit:
            log.warning("a garbage collection took %.2f s", seconds)


def place_of(thread: int) -> str:
    """Return where a thread is, innermost call first; empty once the thread has ended."""
    frame = sys._current_frames().get(thread)
    return "" if frame is None else calls_of(frame)


def places_of_others() -> list[tuple[str, str]]:
    """Return where each other thread is, and what calls led there, innermost first.

    Threads that wait are left out: they do not keep the interpreter lock.
    """
    frames = sys._current_frames()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return [
        (f"{names.get(ident, 'a thread')} in {frame.f_code.co_name}", calls_of(frame))
        for ident, frame in frames.items()
        if ident != threading.get_ident() and PurePath(frame.f_code.co_filename).name not in WAITING
    ]


def calls_of(frame: FrameType) -> str:
    """Return the innermost calls of a frame."""
    calls: list[str] = []
    outer: FrameType | None = frame
    while outer is not None and len(calls) < FRAMES:
        calls.append(f"{outer.f_code.co_name} ({outer.f_code.co_filename}:{outer.f_lineno})")
        outer = outer.f_back
    return " < ".join(calls)
