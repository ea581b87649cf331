"""The process's heap: what the C library has free goes back to the system now and then.

The arrays of a run are many megabytes on a CPU, come and go with every run, and belong to several threads.
The GNU C library keeps what is free between what is not, so that a process comes to hold far more than it
uses, and most of all after the compilations of a start. While imports make hundreds of thousands of objects
that stay, nobody need look for garbage among them.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

RUNS_BETWEEN = 256
"""How many runs lie between two times."""


def give_back() -> None:
    """Give what is free back to the system; nothing happens where the C library offers no such thing."""
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    try:
        trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    except (OSError, TypeError):  # no library of the process itself: not a Unix
        return None
    return trim


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Keep Python's garbage collector from looking while imports fill the heap, a seventh of their time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
