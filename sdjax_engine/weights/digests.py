"""Digests of whole files, stored on disk so that an unchanged file is read only once.

A stored digest is valid while the file's size, inode, modification time and change time are the same. No
program can set the change time, so a file rewritten in place with its old modification time is noticed. Where
the system has no change time (Windows), no digest is stored.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from sdjax_engine.weights.reading import read_file

PART = 64 * 2**20  # bytes; the parts of a file are digested at the same time
BLOCK = 2**20
THREADS = 4
SUFFIX = ".digest"
KEEPS_CHANGE_TIME = os.name == "posix"
SECONDS_UNTIL_SETTLED = 2.0
"""A file that changed within this time before it was read may change again without a new change time."""

FileStatus = list[int]


@dataclass(frozen=True, kw_only=True, eq=False)
class Digests:
    """Digests of files, stored in `folder` between starts (None: not stored)."""

    folder: Path | None
    clock: Callable[[], float] = time.time
    _known: dict[Path, tuple[FileStatus, str]] = field(default_factory=dict, init=False, repr=False)

    def of(self, file: Path) -> str:
        """Return a sha256 over the sha256 of each part of `file`; raises UnreadableCheckpoint."""
        known = self._known.get(file)
        if known is None:
            known = self._known[file] = self._recalled(file) or self._read(file)
        return known[1]

    def is_unchanged(self, file: Path) -> bool:
        """Return whether `file` is unchanged since `of` returned its digest; raises OSError."""
        return self._known[file][0] == status_of(file)

    def _recalled(self, file: Path) -> tuple[FileStatus, str] | None:
        """Return the facts and the stored digest of `file`, or None if it may have changed."""
        place = self._place(file)
        if place is None:
            return None
        try:
            stored = json.loads(place.read_text(encoding="ascii"))
            status, digest = stored["facts"], stored["digest"]
            return (status, str(digest)) if status == status_of(file) else None
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None

    def _read(self, file: Path) -> tuple[FileStatus, str]:
        begun = self.clock()
        with read_file(file):
            status = status_of(file)
            with ThreadPoolExecutor(THREADS, thread_name_prefix="digest") as pool:
                parts = pool.map(lambda start: digest_part(file, start), range(0, status[0], PART))
                digest = hashlib.sha256(b"".join(parts)).hexdigest()
            settled = begun - change_time(status) > SECONDS_UNTIL_SETTLED and status == status_of(file)
        place = self._place(file)
        if place is not None and settled:
            with suppress(OSError):
                remember(place, status, digest)
        return status, digest

    def _place(self, file: Path) -> Path | None:
        """Return the path of the stored digest of `file`, or None if it cannot be stored."""
        if self.folder is None or not KEEPS_CHANGE_TIME:
            return None
        return self.folder / f"{hashlib.sha256(os.fsencode(file.absolute())).hexdigest()[:20]}{SUFFIX}"


def remember(place: Path, status: FileStatus, digest: str) -> None:
    """Write a digest and the facts of its file to `place`; raises OSError."""
    place.parent.mkdir(parents=True, exist_ok=True)
    part = place.with_name(f"{place.stem}.{os.getpid()}.part")
    part.write_text(json.dumps({"facts": status, "digest": digest}), encoding="ascii")
    part.replace(place)


def status_of(file: Path) -> FileStatus:
    """Return the size, inode, modification and change times of `file`; raises OSError."""
    status = file.stat()
    return [status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns]


def change_time(status: FileStatus) -> float:
    """Return the change time in `status`, in seconds since the epoch."""
    return status[3] / 1e9


def digest_part(file: Path, start: int) -> bytes:
    """Return the sha256 of the `PART` bytes of `file` from `start` on; raises OSError."""
    digest, view, left = hashlib.sha256(), memoryview(bytearray(BLOCK)), PART
    with file.open("rb", buffering=0) as opened:
        opened.seek(start)
        while left and (count := opened.readinto(view[:left])):
            digest.update(view[:count])
            left -= count
    return digest.digest()
