"""A disk in memory for the files of tests, where the machine has one with enough space.

A commit to SQLite waits until the disk has it. Tests make thousands of commits, and kill processes but never
the machine.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

DISK = Path("/dev/shm")
NEEDED_BYTES = 4 * 2**30


def memory_disk() -> str | None:
    """Return the folder of a disk in memory with enough space, or None."""
    usable = os.access(DISK, os.W_OK) and shutil.disk_usage(DISK).free > NEEDED_BYTES
    return str(DISK) if usable else None
