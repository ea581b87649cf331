"""Makes a backup while the bot runs.

Most pictures are copied first, without an open transaction. Then a snapshot of the rows is taken, the last
pictures that it names are copied, and the rows are written. A picture's file is there before a row names it,
but can be deleted between the snapshot and the copy. Then a later snapshot is taken.
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

PASSES = 3  # over the pictures, before the snapshot: each copies what was painted during the one before
LOOKS = 50  # at a snapshot; the last one accepts that pictures are missing, so that every backup ends


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
    pictures = _Pictures(folder=folder, artifacts=artifacts, earlier=earlier)
    for _ in range(PASSES):
        await pictures.bring(await _named(database))
    for look in range(1, LOOKS + 1):
        async with snapshot(database) as seen:
            names = await seen.pictures()
            # What was gone before is looked for later: the transaction should be short.
            if await pictures.bring(names - pictures.gone) and look < LOOKS:
                continue
            tables, revision = await _write_tables(folder, seen), seen.revision
        await pictures.bring(names)  # what was gone may have been painted again
        lost = names - pictures.there
        if not lost or lost <= await _named(database):
            break  # a row still names each of them, so none was only deleted
    else:
        log.warning("Pictures were deleted during each of %d looks at the rows: they count as lost", LOOKS)
    for name in pictures.there - names:
        picture_file(folder, name).unlink()
    return Manifest(
        format=FORMAT,
        made_at=now.isoformat(timespec="seconds"),
        program=program_version(),
        revision=revision,
        database="postgresql" if database.has_time else "sqlite",
        tables=tables,
        pictures={name: picture_file(folder, name).stat().st_size for name in sorted(pictures.there & names)},
        lost=sorted(lost),
    )


class _Pictures:
    """The pictures of a backup that is being made: the names of those that it has, and of those not found."""

    def __init__(self, *, folder: Path, artifacts: Artifacts, earlier: Path | None) -> None:
        make_folders(folder, ())
        self.there, self.gone = set[str](), set[str]()
        self._folder, self._artifacts, self._earlier = folder, artifacts, earlier

    async def bring(self, names: set[str]) -> set[str]:
        """Copy those of these pictures that are not there; return those that cannot be found."""
        new = names - self.there
        missing = await collect(self._folder, new, self._artifacts, earlier=self._earlier)
        self.there |= new - missing
        self.gone = (self.gone | missing) - self.there
        return missing


async def _named(database: Database) -> set[str]:
    """Return the pictures that the rows name now."""
    async with snapshot(database) as seen:
        return await seen.pictures()


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
