"""The warm-up: makes lanes ready one after another while the engine already paints.

A request for a lane that is not ready waits for it. A lane that cannot be made ready fails its own requests
and no others.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from sdjax_engine.compiling.compiler import CompilingStopped
from sdjax_engine.errors import EngineClosed
from sdjax_engine.scheduler.thread import Wanted

logger = logging.getLogger(__name__)

MOMENT = 0.3  # seconds without a request after which a step may begin
PATIENCE = 5.0  # the most seconds that a step waits for requests
LOOKS = 0.05  # seconds between two looks


class Requests(Protocol):
    """The requests of an engine."""

    @property
    def has_requests(self) -> bool:
        """Whether a request is not answered yet."""
        ...

    @property
    def awaited(self) -> Collection[Wanted]:
        """What requests wait for: lanes to open, or to start from pictures."""
        ...


@dataclass(frozen=True, kw_only=True)
class Step:
    """Something to be made ready by `make`: requests that wait for one of `opens` need it.

    `fail` is called with the error that `make` raises.
    """

    name: str
    make: Callable[[], None]
    fail: Callable[[Exception], None]
    opens: frozenset[Wanted] = frozenset()


class WarmUp:
    """Takes `steps` in their order, `at_once` of them at a time, in threads of its own.

    With `gives_way` a step waits for a while until `requests` are answered, because compiling takes the
    processor from them; it does not wait while a request waits for a lane. With `ending` it begins as after
    `begin_no_more`. `done` names lanes that are ready already.
    `report` gets a line for each step, one when everything is ready, and the lines of `last`; `seconds`
    returns how long the start has taken so far.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        *,
        done: Sequence[str] = (),
        at_once: int,
        report: Callable[[str], None],
        seconds: Callable[[], float],
        last: Callable[[], Sequence[str]] = tuple,
        requests: Requests,
        gives_way: bool = False,
        ending: bool = False,
    ) -> None:
        self._waiting = list(steps)
        self._left = len(steps)
        self._count = len(done) + len(steps)
        self._failed = 0
        self._report = report
        self._seconds = seconds
        self._last = last
        self._lock = threading.Lock()
        self._requests = requests
        self._gives_way = gives_way
        self._ending = threading.Event()
        if ending:
            self._ending.set()
        self._stopping = threading.Event()
        self._over = threading.Event()
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="sdjax-warm-up")
        for name in done:
            self._report(f"ready for {name} after {seconds():.1f} s")
        if not steps:
            self._end()
        for _ in steps:
            self._pool.submit(self._take)

    def wait(self, timeout: float | None = None) -> bool:
        """Return once everything is ready or has failed, or it was stopped; False at the timeout."""
        return self._over.wait(timeout)

    @property
    def stopped(self) -> bool:
        """Whether `stop` or `begin_no_more` was called, so that not everything may be ready."""
        return self._ending.is_set()

    def begin_no_more(self) -> None:
        """From now on begin only steps that a request waits for; return at once."""
        self._ending.set()

    def stop(self) -> None:
        """Begin no further step, and return when the steps under way have ended."""
        self._ending.set()
        self._stopping.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._over.set()

    def _give_way(self) -> None:
        """Wait up to `PATIENCE` for a `MOMENT` without requests; stop waiting once one waits for a lane."""
        begun = quiet_since = time.monotonic()
        while not (self._ending.wait(LOOKS) or self._requests.awaited):
            now = time.monotonic()
            if self._requests.has_requests:
                quiet_since = now
            if now - quiet_since > MOMENT or now - begun > PATIENCE:
                return

    def _take(self) -> None:
        """Make the next step, or look again later if none may begin."""
        if self._gives_way:
            self._give_way()
        step = self._next()
        if step is not None:
            self._make(step)
        elif not self._stopping.wait(LOOKS):
            with suppress(RuntimeError):  # the pool was shut down meanwhile
                self._pool.submit(self._take)

    def _next(self) -> Step | None:
        """Remove and return the next step, after `begin_no_more` the next that a request waits for."""
        awaited = self._requests.awaited if self._ending.is_set() else None
        with self._lock:
            for step in self._waiting if not self._stopping.is_set() else ():
                if awaited is None or not step.opens.isdisjoint(awaited):
                    self._waiting.remove(step)
                    return step
        return None

    def _make(self, step: Step) -> None:
        try:
            step.make()
        except (CompilingStopped, EngineClosed):
            return
        except Exception as error:
            logger.exception("%s could not be made ready", step.name)
            step.fail(error)
            self._tell(f"{step.name} cannot be made ready: {error}", failed=True)
        else:
            self._tell(f"ready for {step.name} after {self._seconds():.1f} s", failed=False)

    def _tell(self, line: str, *, failed: bool) -> None:
        with self._lock:
            self._left -= 1
            self._failed += failed
            if self._left:
                self._report(f"{line} ({self._count - self._left} of {self._count})")
                return
            self._end(line)

    def _end(self, *lines: str) -> None:
        """Report the last lines; `wait` returns even where a report raises."""
        rest = f", but for {self._failed} of {self._count}" if self._failed else ""
        try:
            for line in (*lines, f"everything ready after {self._seconds():.1f} s{rest}"):
                self._report(line)
            for line in self._last():
                self._report(line)
        finally:
            self._over.set()
