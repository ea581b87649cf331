"""The thread that owns the devices, and the chores that it does for other threads.

Whatever changes what the devices hold is a chore: a claim of memory with the evictions that it needs, seats
that are allocated or freed, models that arrive or leave. Chores are done one after another, between two runs.
Compiling and reading files are no chores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


class Owner:
    """The owner of devices that only one thread uses, as before an engine is open: it does chores at once."""

    def do(self, chore: Callable[[], Result]) -> Result:
        """Return what a chore returns, or raise its error."""
        return chore()

    def submit(self, chore: Callable[[], object]) -> None:
        """Have a chore done, at once or later."""
        chore()
