"""Gives each process a name that no other living process on this machine has, and that a restart keeps.

Names are numbered within a role: HOST-worker-1, HOST-worker-2 … Each name has a small file, which its process
keeps locked. The kernel frees the lock however the process ends. The next process takes the first free name.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from bot.domain.errors import ConfigurationError

# Memory first: services may each have a private temporary folder, and old files in /tmp are deleted.
_FOLDERS = ("/dev/shm", tempfile.gettempdir())  # noqa: S108 - the owner of the folder in it is checked


@dataclass(frozen=True, kw_only=True)
class Name:
    """A name, and the secret in its file. Two processes with one name and two secrets are on two machines."""

    name: str
    number: int
    secret: str

    def __str__(self) -> str:
        return self.name


def default_folder() -> Path:
    """Return the folder of the files, which only this user can read and write."""
    parent = next(Path(folder) for folder in _FOLDERS if os.access(folder, os.W_OK))
    return parent / f"sdjax-bot-{os.getuid()}"


@contextmanager
def take_name(scope: str, role: str, *, folder: Path | None = None, first: int = 1) -> Iterator[Name]:
    """Hold the first free name of this host and role, from number `first`. Names are unique within `scope`.

    Raises ConfigurationError where the folder cannot be trusted or written.
    """
    # The role is part of the name: a worker that took a front's name would leave the front's jobs to nobody.
    folder = folder or default_folder()
    _make_private(folder)
    host, digest = socket.gethostname(), hashlib.sha256(f"{role} {scope}".encode()).hexdigest()[:16]
    for number in count(first):
        handle = os.open(folder / f"{digest}-{number}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            continue
        try:
            yield Name(name=f"{host}-{role}-{number}", number=number, secret=_secret(handle))
            return
        finally:
            os.close(handle)


def _make_private(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise ConfigurationError(f"The folder {folder} cannot be made: {error.strerror}.") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise ConfigurationError(f"{folder} belongs to somebody else, or others may write it: delete it.")


def _secret(handle: int) -> str:
    """Return the secret in the file; write a new one into an empty file."""
    known = os.pread(handle, 64, 0).decode()
    if not known:
        known = secrets.token_hex(16)
        os.pwrite(handle, known.encode(), 0)
    return known
