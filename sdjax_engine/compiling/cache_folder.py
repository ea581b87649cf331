"""Whether the cache folder can be trusted: loading a kept program runs its code.

The folder holds kept programs, converted weights and other data of earlier starts. It is checked once, when
an engine opens. Nothing is read from or written to a folder that other users of the machine can write to.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sdjax_engine.errors import first_line

ROOT = 0
FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def folder_problem(folder: Path, *, group: bool) -> str | None:
    """Return why the folder cannot be trusted, as a clause; None where it can.

    A missing folder is created for this user alone. With `group` its group is trusted: on volumes that
    Kubernetes mounts, the group may write everything.
    """
    try:
        folder.mkdir(mode=0o770 if group else 0o700, parents=True, exist_ok=True)
        top = folder.resolve()
        if not top.is_dir():
            return f"{folder} is not a folder"
        return next(problems(top, group=group), None)
    except OSError as error:
        return f"{folder} cannot be used: {first_line(error).rstrip('.')}"


def problems(top: Path, *, group: bool) -> Iterator[str]:
    """Give a clause for each path through which another user can write into the folder."""
    for each in top.parents:
        mode = each.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            yield f"every user of this machine can replace {top}, because {each} is writable for all"
    if not is_trusted(top, group=group):
        yield reason(top)
    private = not top.stat().st_mode & FOR_OTHERS
    for each in sorted(top.iterdir()):
        with suppress(FileNotFoundError):  # removed by another process
            if not (is_owned(each.lstat(), group=group) if private else is_trusted(each, group=group)):
                yield reason(each)


def is_trusted(path: Path, *, group: bool) -> bool:
    """Whether no other user can have written the path; with `group` its group is trusted. Raises OSError."""
    status = path.lstat()
    writers = stat.S_IWOTH if group else stat.S_IWOTH | stat.S_IWGRP
    return is_owned(status, group=group) and not stat.S_ISLNK(status.st_mode) and not status.st_mode & writers


def is_owned(status: os.stat_result, *, group: bool) -> bool:
    """Whether the owner of a path is this user or root or, with `group`, its group is one of this user's."""
    if not hasattr(os, "getuid"):
        return True
    ours = status.st_uid in (os.getuid(), ROOT)
    return ours or (group and status.st_gid in (os.getegid(), *os.getgroups()))


def reason(path: Path) -> str:
    """Return the clause about a path that is not trusted; raises OSError."""
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return f"{path} is a symbolic link"
    if mode & stat.S_IWOTH:
        return f"every user of this machine can write to {path}"
    if mode & stat.S_IWGRP:
        return f"the group of {path} can write to it"
    return f"{path} belongs to another user"


def refusal(problem: str) -> str:
    """Return the line for the start-up about a folder with this problem."""
    return (
        f"Nothing is kept between starts, because {problem}: make the cache folder writable for this user "
        "alone (chmod 700), or set cache_group = true where its group can be trusted."
    )
