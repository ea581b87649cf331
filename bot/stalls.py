"""Watches whether the event loop stands still, and says what it was at when it did.

While the loop is held, nobody's command is acknowledged and no heartbeat leaves. Two things hold it: a call
of its own that takes long, and native code in any thread that keeps the interpreter lock. A thread that looks
at the loop's frames sees the first. It cannot run during the second: a timer in C, which that thread arms
anew as long as it runs, writes down all frames then, none of which can change meanwhile.
A machine that gives the process no processor makes the loop late too: Linux tells for how long it did.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import logging
import re
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from typing import IO

from bot.metrics import STALL_SECONDS, LoopMetrics

log = logging.getLogger(__name__)

TICK_SECONDS = 0.05
FRAMES = 6  # of the innermost calls, as many as say where it is
RUN_DELAYS = Path(
    "/proc/thread-self/schedstat"
)  # nanoseconds on a processor, nanoseconds waiting for one, turns
OLDEST_GENERATION = 2  # the only collection that can take long
THREAD = re.compile(r"Thread 0x([0-9a-f]+) .*:\n((?:  .*\n)*)")
CALL = re.compile(r'  File "(.*)", line (\d+) in (.*)')
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
        """The thread: remember where the loop is when it is late, unless this thread was kept waiting too."""
        lateness = Lateness(self._clock)
        with tempfile.TemporaryFile("w+") as dump:
            while True:
                names = {thread.ident: thread.name for thread in threading.enumerate()}
                lateness.again()
                faulthandler.dump_traceback_later(TICK_SECONDS + self._limit, file=dump)
                ended = self._ended.wait(TICK_SECONDS)
                faulthandler.cancel_dump_traceback_later()
                if ended:
                    return
                late, starved = lateness.seconds()
                places = read_places(dump, names)
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
    """Where a thread is, from the innermost call outwards; empty once it has ended."""
    frame = sys._current_frames().get(thread)
    if frame is None:
        return ""
    calls = traceback.extract_stack(frame)[-FRAMES:]
    return " < ".join(f"{call.name} ({call.filename}:{call.lineno})" for call in reversed(calls))


def read_places(dump: IO[str], names: Mapping[int | None, str]) -> list[str]:
    """Take from `dump`, which `faulthandler` writes, where threads were that may have held the lock."""
    dump.seek(0)
    places = []
    for ident, lines in THREAD.findall(dump.read()):
        calls = CALL.findall(lines)[:FRAMES]
        if calls and PurePath(calls[0][0]).name not in WAITING:
            where = " < ".join(f"{name} ({file}:{line})" for file, line, name in calls)
            places.append(f"{names.get(int(ident, 16), 'a thread')} at {where}")
    dump.seek(0)
    dump.truncate()
    return places
