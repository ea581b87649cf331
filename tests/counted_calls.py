"""How much work is done, in numbers that are the same on every machine: calls, and bytes of memory."""

import contextlib
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any


def calls_of(work: Callable[[], object]) -> int:
    """Return how many calls of functions, Python's and C's, and of generators `work` makes."""
    count = 0

    def counted(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@contextlib.contextmanager
def peak_below(limit: int) -> Iterator[None]:
    """Check that Python needs fewer bytes of new memory than `limit` at any moment in the context."""
    tracemalloc.start()
    try:
        yield
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < limit
