"""The memory of a process: rare collections of garbage, and free memory that goes back to the system.

On a CPU several threads allocate and free many megabytes in every run. The GNU C library keeps free memory
between blocks in use: after a start and a few pictures the demo held 741 MiB, and 451 after a trim. Its
variables do not help: with MALLOC_ARENA_MAX=2 the demo held 700.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
from contextlib import suppress

from bot.process.threads import in_thread

THRESHOLDS = 50_000, 10, 1000  # Python's defaults are 700, 10, 10


def collect_rarely() -> None:
    """Let most objects of imports and of traced programs be made without a collection.

    A full collection stops every thread of the process, the event loop included. With JAX imported it takes
    0.15 to 0.3 s of processor time, and several times as long on a busy machine: an acknowledgement may then
    miss Discord's limit of 3 s. Tracing programs used to cause half a dozen of them at each start.
    """
    gc.set_threshold(*THRESHOLDS)


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
