"""The thread that owns the devices, and the chores that it does for other threads.

Whatever changes what the devices hold is a chore: a claim of memory with the evictions that it needs, seats
that are allocated or freed, models that arrive or leave. Chores are done one after another, between two runs.
Compiling and reading files are no chores.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol, TypeVar

from sdjax_engine.daemon_thread import fulfil

Result = TypeVar("Result")


class Owner(Protocol):
    """The thread that owns the devices, as other threads use it."""

    def do(self, chore: Callable[[], Result]) -> Result:
        """Return what a chore returns, or raise its error or EngineClosed; the owner may call it too."""
        ...

    def submit(self, chore: Callable[[], object]) -> Future[object]:
        """Have a chore done after those before it; returns its future. Raises EngineClosed."""
        ...


class Alone:
    """The owner of devices that only one thread uses, as before an engine is open: it does chores at once."""

    def do(self, chore: Callable[[], Result]) -> Result:
        """Do a chore."""
        return chore()

    def submit(self, chore: Callable[[], object]) -> Future[object]:
        """Do a chore, and return the future of its result or error."""
        future: Future[object] = Future()
        fulfil(future, chore)
        return future
