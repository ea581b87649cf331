"""A clock, a lease's length and a full disk for tests of what is stored."""

import resource
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from bot.store import Store

TTL = 60.0
OpenStore = Callable[[], Awaitable[Store]]


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def small_disk() -> Iterator[None]:
    """No file may grow over 8 KiB: what a full disk does to a write.

    It holds for the whole process, the test run's own output included: nothing may be printed inside.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
