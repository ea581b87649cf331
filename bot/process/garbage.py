"""Makes the collections of garbage rare, from the start of the process on."""

from __future__ import annotations

import gc

THRESHOLDS = 50_000, 10, 1000  # Python's defaults are 700, 10, 10


def collect_rarely() -> None:
    """Let most objects of imports and of traced programs be made without a collection.

    A full collection stops every thread of the process, the event loop included. With JAX imported it takes
    0.15 to 0.3 s of processor time, and several times as long on a busy machine: an acknowledgement may then
    miss Discord's limit of 3 s. Tracing programs used to cause half a dozen of them at each start.
    """
    gc.set_threshold(*THRESHOLDS)
