"""Returns the C library's free memory to the system.

On a CPU several threads allocate and free many megabytes in every run. The GNU C library keeps free memory
between blocks in use: after a start and a few pictures the demo held 741 MiB, and 451 after a trim. Its
variables do not help: with MALLOC_ARENA_MAX=2 the demo held 700.
"""

from __future__ import annotations

import asyncio
import ctypes
from contextlib import suppress

from bot.process.threads import in_thread

SECONDS_BETWEEN_TRIMS = 60.0


async def trim_regularly() -> None:
    """Trim the heap every minute until cancelled."""
    while True:
        await asyncio.sleep(SECONDS_BETWEEN_TRIMS)
        await in_thread(trim, "heap")


def trim() -> None:
    """Return free memory to the system; does nothing where the C library has no `malloc_trim`."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
