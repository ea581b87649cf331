"""Returns the C library's free memory to the system.

On a CPU several threads allocate and free many megabytes in every run. The GNU C library keeps free memory
between blocks in use, so a process would hold far more memory than it uses, most of all after compiling.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable
from functools import cache

from bot.process.threads import in_thread

SECONDS_BETWEEN_TRIMS = 60.0


async def trim_regularly() -> None:
    """Trim the heap every minute until cancelled."""
    while True:
        await asyncio.sleep(SECONDS_BETWEEN_TRIMS)
        await in_thread(trim, "heap")


def trim() -> None:
    """Return free memory to the system; does nothing where the C library has no `malloc_trim`."""
    malloc_trim = _malloc_trim()
    if malloc_trim is not None:
        malloc_trim(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    try:
        found: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    except (OSError, TypeError):  # not a Unix system: the process has no library of its own
        return None
    return found
