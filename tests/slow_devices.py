"""Slow devices: a few cheap steps take long."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sdjax_engine.lane.runs import Run


@contextmanager
def slow_devices(seconds: float) -> Iterator[None]:
    """Let devices take at least `seconds` for each run, one run after the other.

    The time counts from the start of a run. If it counted from the wait for the run, the engine, which learns
    how long runs take, would queue runs later each time.
    """
    began, finished, free_at = Run.__init__, Run.wait, [0.0]
    ends: dict[int, float] = {}

    def begin(run: Run, **values: Any) -> None:
        began(run, **values)
        free_at[0] = max(free_at[0], time.monotonic()) + seconds
        ends[id(run)] = free_at[0]

    def wait(run: Run) -> None:
        finished(run)
        time.sleep(max(0.0, ends.pop(id(run), 0.0) - time.monotonic()))

    Run.__init__, Run.wait = begin, wait  # type: ignore[method-assign]
    try:
        yield
    finally:
        Run.__init__, Run.wait = began, finished  # type: ignore[method-assign]
