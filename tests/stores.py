"""A clock and a lease's length for tests of the queue."""

from collections.abc import Awaitable, Callable

from bot.store import Store

TTL = 60.0
OpenStore = Callable[[], Awaitable[Store]]


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now
