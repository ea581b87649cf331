"""Files and folders that only this user may read: they hold prompts, tokens and pictures."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

OTHERS = stat.S_IRWXG | stat.S_IRWXO


def make_folder(folder: Path) -> None:
    """Make `folder` and its missing parents with mode 0700; an existing folder keeps its mode."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except FileNotFoundError:  # `parents=True` would make parents that other users can read
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def make_file(file: Path) -> None:
    """Make an empty file with mode 0600; an existing file is not changed."""
    os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def make_private(path: Path) -> None:
    """Remove every permission of the group and of others from `path`, if this user owns it."""
    with contextlib.suppress(FileNotFoundError, PermissionError):
        found = path.stat()
        if found.st_uid == os.getuid() and found.st_mode & OTHERS:
            path.chmod(stat.S_IMODE(found.st_mode) & ~OTHERS)


def write_private(file: Path, data: bytes, *, replace: bool = False) -> bool:
    """Write `data` for the owner alone, completely or not at all; False where the file exists by now.

    With `replace`, an existing file is replaced. Raises OSError.
    """
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    part.unlink(missing_ok=True)
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as made:
            made.write(data)
            made.flush()
            os.fsync(made.fileno())
        if replace:
            part.replace(file)
        else:
            os.link(part, file)
    except FileExistsError:
        return False
    finally:
        part.unlink(missing_ok=True)
    return True
