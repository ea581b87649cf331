"""Makes a backup while the bot runs.

Rows first, then the pictures that they name: a picture's file is there before a row names it. A file may be
deleted between the two. Then the rows are read again, and what is new is copied, until every picture of the
rows is in the backup.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bot.backup.manifest import FORMAT, TABLES, Manifest, TableFile, picture_file, table_file, write_manifest
from bot.backup.picture_files import collect, make_folders
from bot.backup.places import backups, complete, delete_oldest, under_way
from bot.backup.table_files import write_rows
from bot.files import Artifacts
from bot.store.database import Database
from bot.store.dumping import Snapshot, snapshot

log = logging.getLogger(__name__)

LOOKS = 5  # at the rows; each later look copies what has changed within seconds


@dataclass(frozen=True, kw_only=True)
class Made:
    """A complete backup, and the older ones that were deleted for it."""

    folder: Path
    manifest: Manifest
    deleted: tuple[Path, ...]


async def make_backup(
    place: Path, database: Database, artifacts: Artifacts, *, keep: int | None = None
) -> Made:
    """Write a new backup into the folder `place`, and delete all but the newest `keep`.

    Raises BackupRefused, StoreUnavailable or OSError; then there is no new backup, and no old one is deleted.
    """
    now = datetime.now(UTC)
    with under_way(place) as folder:
        earlier = backups(place)
        manifest = await _fill(folder, database, artifacts, earlier[-1] if earlier else None, now)
        write_manifest(folder, manifest)
        made = complete(folder, now)
        deleted = delete_oldest(place, keep) if keep else []
    return Made(folder=made, manifest=manifest, deleted=tuple(deleted))


async def _fill(
    folder: Path, database: Database, artifacts: Artifacts, earlier: Path | None, now: datetime
) -> Manifest:
    """Write tables and pictures into a folder, and return their manifest."""
    (folder / TABLES).mkdir(mode=0o700)
    make_folders(folder, ())
    there, missing = set[str](), set[str]()
    for look in range(1, LOOKS + 1):
        async with snapshot(database) as seen:
            tables = await _write_tables(folder, seen)
            names = await seen.pictures()
            revision = seen.revision
        known, missing = missing, await collect(folder, names - there, artifacts, earlier=earlier)
        there |= names - missing
        if missing <= known:  # not deleted since the last look: they were lost before
            break
        log.info("%d pictures were deleted during the backup: look %d at the rows", len(missing), look + 1)
    for name in there - names:
        picture_file(folder, name).unlink()
    return Manifest(
        format=FORMAT,
        made_at=now.isoformat(timespec="seconds"),
        program=program_version(),
        revision=revision,
        database="postgresql" if database.has_time else "sqlite",
        tables=tables,
        pictures={name: picture_file(folder, name).stat().st_size for name in sorted(names - missing)},
        lost=sorted(missing),
    )


async def _write_tables(folder: Path, seen: Snapshot) -> dict[str, TableFile]:
    return {
        name: await write_rows(
            table_file(folder, name), [column.name for column in table.columns], seen.rows(name)
        )
        for name, table in seen.tables.items()
    }


def program_version() -> str:
    """Return the version of the bot, empty where it is not installed as a package."""
    try:
        return version("sdjax-bot")
    except PackageNotFoundError:
        return ""
