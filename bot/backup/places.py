"""The folder of backups: each is a folder in it, named by its time, and gets its name once it is complete."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bot.backup.durable import sync_folder
from bot.backup.manifest import MANIFEST
from bot.domain.errors import BackupRefused

log = logging.getLogger(__name__)

LOCK = ".lock"
UNDER_WAY = ".under-way"
GOING = ".going-"  # before the name of a backup that is being deleted
_STAMP = "%Y-%m-%dT%H%M%SZ"
_NAME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{6}Z")


def backups(place: Path) -> list[Path]:
    """Return the complete backups in a folder, the oldest first."""
    try:
        found = sorted(path for path in place.iterdir() if _NAME.fullmatch(path.name))
    except OSError as error:
        raise BackupRefused(f"{place} cannot be read: {error.strerror}.") from error
    return [path for path in found if path.is_dir()]


def chosen(place: Path) -> Path:
    """Return the backup that a person names: the folder itself, or the newest in it.

    Raises BackupRefused where there is none.
    """
    if (place / MANIFEST).exists() or _NAME.fullmatch(place.name):
        return place
    if not (found := backups(place)):
        raise BackupRefused(f"{place} holds no backup: name the folder that `sdjax-bot backup` wrote to.")
    return found[-1]


@contextmanager
def under_way(place: Path) -> Iterator[Path]:
    """Give the folder of a backup that is being written, and delete it on an error.

    A `place` that this call has made is deleted too. What earlier, killed backups have left is deleted first.
    Raises BackupRefused for a folder that cannot be written, or in which another backup is being written.
    """
    is_new = not place.exists()
    try:
        place.mkdir(mode=0o700, exist_ok=True)  # not its parents: a missing one may be a missing disk
        handle = os.open(place / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise BackupRefused(f"{place} cannot be written: {error.strerror}.") from error
    try:
        _lock(handle, place)
        _tidy(place)
        folder = place / UNDER_WAY
        folder.mkdir(mode=0o700)
        try:
            yield folder
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            if is_new:
                _remove_empty(place)
            raise
    finally:
        os.close(handle)


def _remove_empty(place: Path) -> None:
    """Delete a place that holds nothing but its lock."""
    with suppress(OSError):
        if [each.name for each in place.iterdir()] == [LOCK]:
            (place / LOCK).unlink()
            place.rmdir()


def complete(folder: Path, now: datetime) -> Path:
    """Give a written folder its final name, which makes it a backup, and return it.

    The name is the time, or a second later than the newest backup's where the clock was set back.
    """
    place, stamp = folder.parent, now.astimezone(UTC).strftime(_STAMP)
    if (earlier := backups(place)) and stamp <= (newest := earlier[-1].name):
        later = datetime.strptime(newest, _STAMP).replace(tzinfo=UTC) + timedelta(seconds=1)
        stamp = later.strftime(_STAMP)
    named = place / stamp
    for part in sorted(folder.rglob("*"), reverse=True):
        if part.is_dir():
            sync_folder(part)
    sync_folder(folder)
    folder.rename(named)
    try:
        sync_folder(place)
    except OSError:  # a power cut may lose the name, so it is no backup
        named.rename(folder)
        raise
    return named


def delete_oldest(place: Path, keep: int) -> list[Path]:
    """Delete all but the newest `keep` backups, and return the deleted ones; the lock must be held.

    A warning names each one that cannot be deleted.
    """
    old = backups(place)[:-keep]
    # Renamed first: a half deleted backup is no backup.
    return [backup for backup in old if _delete(backup, place / f"{GOING}{backup.name}")]


def _delete(backup: Path, renamed: Path) -> bool:
    """Rename an old backup, and delete it; return whether it is gone, and warn if not."""
    try:
        backup.rename(renamed)
        shutil.rmtree(renamed)
    except OSError as error:
        left = renamed if renamed.exists() else backup
        log.warning("%s cannot be deleted: %s. Delete it yourself", left, error.strerror or error)
        return False
    return True


def _lock(handle: int, place: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BackupRefused(f"Another backup is being written to {place}: wait until it is done.") from None
    except OSError as error:  # some network folders have no locks
        raise BackupRefused(f"{place} cannot be locked: {error.strerror}; name a local folder.") from error


def _tidy(place: Path) -> None:
    """Delete what killed backups have left."""
    for left in place.glob(f"{GOING}*"):
        _delete(left, left)
    left = place / UNDER_WAY
    try:
        shutil.rmtree(left)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise BackupRefused(
            f"{left}, of an interrupted backup, cannot be deleted: {error.strerror or error}. Delete it."
        ) from None
