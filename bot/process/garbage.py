"""Makes full garbage collections rare, and excludes long-lived objects from them.

A full collection stops every thread of the process, the event loop included. With JAX imported it takes 0.15
to 0.3 s of processor time, and several times as long on a busy machine: an acknowledgement may then miss
Discord's limit of 3 s. Tracing programs makes many objects, so each start used to run half a dozen full
collections. Together they freed a few hundred objects.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Protocol

RARELY = 1000  # collections of younger objects before a full collection; Python's default is 10


class Preparing(Protocol):
    """An object that is still being prepared after it has been opened."""

    def wait_until_ready(self) -> object:
        """Return once the preparation has ended, with success or not."""
        ...


def exclude_existing() -> None:
    """Exclude every object that exists now from later collections."""
    gc.freeze()


@contextmanager
def paused_collections() -> Iterator[None]:
    """Run no collection inside the block, such as an import."""
    # The objects of an import stay, and collections would take a seventh of the import's time.
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class RareCollections:
    """Makes full collections rare from `begin` to `end`."""

    def __init__(self) -> None:
        self._thresholds = gc.get_threshold()

    def begin(self) -> None:
        """Exclude existing objects, such as imported modules, and make full collections rare."""
        exclude_existing()
        young, middle, _ = self._thresholds
        gc.set_threshold(young, middle, RARELY)

    def end(self) -> None:
        """Exclude existing objects, such as traced programs, and restore the thresholds."""
        exclude_existing()
        gc.set_threshold(*self._thresholds)

    def end_after(self, preparing: Preparing) -> None:
        """Call `end` from a new thread once `preparing` is ready."""

        def wait() -> None:
            preparing.wait_until_ready()
            self.end()

        Thread(target=wait, name="garbage", daemon=True).start()
