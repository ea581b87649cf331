"""How often Python's garbage collector looks at every object, and which objects it leaves out.

A full collection holds every thread of the process, the event loop included. Once JAX is imported it takes
0.15 to 0.3 s of processor time. A busy machine makes that several times as long, until the first answer to an
interaction misses the 3 s that Discord waits. Tracing programs makes so many objects that each start ran half
a dozen full collections, which found a few hundred objects of garbage together.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Protocol

RARELY = 1000  # collections of the younger objects before a full one; Python's own setting is 10


class Opened(Protocol):
    """What goes on preparing after it has been opened."""

    def wait_until_ready(self) -> object:
        """Return once everything is prepared, or nothing more will be."""
        ...


def spare_living() -> None:
    """Leave every object that lives now out of later collections."""
    gc.freeze()


@contextmanager
def paused_collections() -> Iterator[None]:
    """Run no collection meanwhile.

    Imports make objects that stay, and collections take a seventh of an import's time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class FewCollections:
    """Hardly any full collection between `begin` and the end: that of what was opened, or `end`."""

    def __init__(self) -> None:
        self._usual = gc.get_threshold()

    def begin(self) -> None:
        """Leave out what lives now, such as imported modules, and begin."""
        spare_living()
        young, middle, _ = self._usual
        gc.set_threshold(young, middle, RARELY)

    def end(self) -> None:
        """Leave out what lives now, such as traced programs, and collect as usual again."""
        spare_living()
        gc.set_threshold(*self._usual)

    def end_with(self, opened: Opened) -> None:
        """End once `opened` is ready, in a thread of its own."""

        def wait() -> None:
            opened.wait_until_ready()
            self.end()

        Thread(target=wait, name="garbage", daemon=True).start()
