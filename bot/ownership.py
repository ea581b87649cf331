"""Files and folders that their owner alone may read: prompts, tokens and pictures are in them."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

OTHERS = stat.S_IRWXG | stat.S_IRWXO


def make_folder(folder: Path) -> None:
    """Make `folder` and its missing parents for this user alone; one that exists stays as it is."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except FileNotFoundError:  # `parents=True` would make the parents for everybody
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def make_file(file: Path) -> None:
    """Make an empty file for this user alone; one that exists stays as it is."""
    os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def make_private(path: Path) -> None:
    """Take every right to `path` from the group and from others, where the path is this user's."""
    with contextlib.suppress(FileNotFoundError, PermissionError):
        found = path.stat()
        if found.st_uid == os.getuid() and found.st_mode & OTHERS:
            path.chmod(stat.S_IMODE(found.st_mode) & ~OTHERS)
