"""Watches whether the event loop stands still, and says which call held it when it did.

While the loop is held, no command is acknowledged and no heartbeat leaves. Two things hold it: a long call of
its own, and native code in any thread that keeps the interpreter lock. A second thread reads the frames of
the loop during the first. It cannot run during the second: it reads the frames of all threads as soon as it
gets the lock, when the thread that kept the lock has just returned from the native call. A machine that gives
the process no processor makes the loop late too: Linux tells for how long it did.

The frames are read with the interpreter lock held, never by `faulthandler`: it reads them without the lock,
and a thread that runs meanwhile may free them, which ends the process with a segmentation fault.
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

from bot.metrics import STALL_SECONDS, LoopMetrics

log = logging.getLogger(__name__)

TICK_SECONDS = 0.05
FRAMES = 6  # of the innermost calls, as many as say where it is
RUN_DELAYS = Path(
    "/proc/thread-self/schedstat"
)  # nanoseconds on a processor, nanoseconds waiting for one, turns
OLDEST_GENERATION = 2  # the only collection that can take long
WAITING = frozenset({"threading.py", "selectors.py", "queue.py"})  # a thread in these lets others run


class Lateness:
    """How late the thread that asks comes back to a timer, and how much of that the machine made it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._delay = run_delay()
        self.due = clock() + TICK_SECONDS

    def again(self) -> None:
        """Begin to wait for the next tick."""
        self._delay = run_delay()
        self.due = self._clock() + TICK_SECONDS

    def seconds(self) -> tuple[float, float]:
        """Seconds since the tick was due, and those of them that were spent waiting for a processor."""
        late = max(0.0, self._clock() - self.due)
        return late, min(late, run_delay() - self._delay)


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
        collections = Collections(self._limit, self._clock)
        gc.callbacks.append(collections)
        threading.Thread(target=self._look, name="stall watch", daemon=True).start()
        lateness, used = Lateness(self._clock), time.thread_time()
        try:
            while True:
                lateness.again()
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
        seen, self._seen = self._seen, ""
        if lag <= self._limit:
            return
        self._metrics.stalls.inc()
        if lag - starved <= self._limit:
            self._metrics.starved_stalls.inc()
        self._longest = max(self._longest, lag)
        self._metrics.longest.set(self._longest)
        log.warning(
            "the event loop stood still for %.2f s, %.2f s of them without a processor%s",
            *(lag, starved, f", at {seen}" if seen else ""),
        )

    def _look(self) -> None:
        """The thread: remember where the loop is when it is late, and say which threads may have held it."""
        lateness = Lateness(self._clock)
        while True:
            lateness.again()
            ended = self._ended.wait(TICK_SECONDS)
            overdue = self._clock() - lateness.due > self._limit
            places = places_of_others() if overdue else []  # before any call that lets other threads go on
            if ended:
                return
            late, starved = lateness.seconds()
            if late - starved > self._limit:
                log.warning(
                    "no thread could run Python for %.2f s, as one of these kept the lock of it: %s",
                    *(late - starved, "; ".join(places) or "none was seen"),
                )
            elif late < self._limit / 2 < self._clock() - self._due and not self._seen:
                self._seen = place_of(self._loop_thread)


def run_delay() -> float:
    """Seconds that the calling thread has waited for a processor so far; 0 where Linux does not tell."""
    try:
        return int(RUN_DELAYS.read_bytes().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


class Collections:
    """Says which garbage collections took longer than `limit` seconds: all threads wait for one."""

    def __init__(self, limit: float, clock: Callable[[], float]) -> None:
        self._limit = limit
        self._clock = clock
        self._began = 0.0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        """What `gc.callbacks` are called with."""
        if info["generation"] < OLDEST_GENERATION:
            return
        if phase == "start":
            self._began = self._clock()
        elif (seconds := self._clock() - self._began) > self._limit:
            log.warning("a garbage collection took %.2f s", seconds)


def place_of(thread: int) -> str:
    """Return where a thread is, from the innermost call outwards; empty once it has ended."""
    frame = sys._current_frames().get(thread)
    return "" if frame is None else calls_of(frame)


def places_of_others() -> list[str]:
    """Return where every other thread is that may have held the interpreter lock: those that do not wait."""
    frames = sys._current_frames()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return [
        f"{names.get(ident, 'a thread')} at {calls_of(frame)}"
        for ident, frame in frames.items()
        if ident != threading.get_ident() and PurePath(frame.f_code.co_filename).name not in WAITING
    ]


def calls_of(frame: FrameType) -> str:
    """Return the innermost calls of a frame, as many as say where it is."""
    calls: list[str] = []
    outer: FrameType | None = frame
    while outer is not None and len(calls) < FRAMES:
        calls.append(f"{outer.f_code.co_name} ({outer.f_code.co_filename}:{outer.f_lineno})")
        outer = outer.f_back
    return " < ".join(calls)
