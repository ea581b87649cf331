"""A name for this process that no other living one on this machine has, and that a later life gets again.

Names are numbered within a role: HOST-worker-1, HOST-worker-2 … Each belongs to a small file that is locked
for as long as its process lives; however that ends, the kernel frees the lock, and the next start takes the
first name that is free.
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

from bot.errors import ConfigurationError

# In memory, where it is, since services may have each a private temporary folder, and old files are cleaned.
_FOLDERS = ("/dev/shm", tempfile.gettempdir())  # noqa: S108 - its own folder in it is checked


@dataclass(frozen=True, kw_only=True)
class Name:
    """A name and the secret of its file, which tells lives of this name from strangers that bear it too."""

    name: str
    number: int
    secret: str

    def __str__(self) -> str:
        return self.name


def usual_folder() -> Path:
    """Where the files are, readable and writable by this user alone."""
    parent = next(Path(folder) for folder in _FOLDERS if os.access(folder, os.W_OK))
    return parent / f"sdjax-bot-{os.getuid()}"


@contextmanager
def take_name(scope: str, role: str, *, folder: Path | None = None, first: int = 1) -> Iterator[Name]:
    """Hold the first free name of this host and role from number `first`; `scope` is what it is unique in.

    A name stays with its role: what a front left under it would be nobody's while a worker lived by it.

    Raises ConfigurationError where the folder cannot be trusted or written.
    """
    folder = folder or usual_folder()
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
    """What the file says, or now says for the first time."""
    known = os.pread(handle, 64, 0).decode()
    if not known:
        known = secrets.token_hex(16)
        os.pwrite(handle, known.encode(), 0)
    return known
