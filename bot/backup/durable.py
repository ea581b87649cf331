"""Files that are on the disk when a call returns, and that only this user may read."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from bot.domain.errors import BackupRefused

_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def refused_by_disk(path: Path, verb: Literal["read", "written"]) -> Iterator[None]:
    """Raise BackupRefused, with the path, for an OSError of the disk that holds backups.

    Inside a transaction, an OSError would be reported as an error of the database.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise BackupRefused(f"The disk that holds {path} is full: free some space.") from error
        raise BackupRefused(f"{path} cannot be {verb}: {error.strerror or error}.") from error


def write_durably(file: Path, data: bytes) -> None:
    """Write a new file with mode 0600; its folder must be synced as well. Raises BackupRefused."""
    with refused_by_disk(file, "written"):
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that the names of its files are on the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def size_and_hash(file: Path) -> tuple[int, str]:
    """Return the size of a file in bytes, and its SHA-256."""
    return file.stat().st_size, sha256_of(file)


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal digits."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
