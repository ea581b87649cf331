"""The process's heap: the C library's free memory is given back to the system.

On a CPU the arrays of a run are many megabytes, are allocated and freed by several threads with every run,
and the GNU C library keeps free memory between blocks that are in use. A process would hold far more memory
than it uses, most of all after the compilations of a start.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable
from functools import cache

from bot.threads import in_thread

SECONDS_BETWEEN_TRIMS = 60.0


async def trim_regularly() -> None:
    """Trim the heap again and again until it is cancelled."""
    while True:
        await asyncio.sleep(SECONDS_BETWEEN_TRIMS)
        await in_thread(trim, "heap")


def trim() -> None:
    """Give free memory back to the system; does nothing where the C library has no `malloc_trim`."""
    malloc_trim = _malloc_trim()
    if malloc_trim is not None:
        malloc_trim(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    try:
        found: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    except (OSError, TypeError):  # no library of the process itself: not a Unix
        return None
    return found
