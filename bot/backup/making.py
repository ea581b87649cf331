"""Makes a backup while the bot runs.

Most pictures are copied first, without an open transaction. Then a snapshot of the rows is taken, the last
pictures that it names are copied, and the rows are written. A picture's file is there before a row names it,
but can be deleted between the snapshot and the copy. Then a later snapshot is taken.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bot.backup.durable import refused_by_disk
from bot.backup.manifest import FORMAT, TABLES, Manifest, TableFile, picture_file, table_file, write_manifest
from bot.backup.picture_files import collect, make_folders
from bot.backup.places import backups, complete, delete_oldest, under_way
from bot.backup.table_files import write_rows
from bot.files import Artifacts
from bot.store.backups.dump import Snapshot, snapshot
from bot.store.database.database import Database

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

    Raises BackupRefused or StoreUnavailable; then there is no new backup, and no old one is deleted. An old
    one that cannot be deleted is named by a warning.
    """
    now = datetime.now(UTC)
    with refused_by_disk(place, "written"), under_way(place) as folder:
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
        await pictures.bring((await _named(database)).keys() - pictures.gone)
    for look in range(1, LOOKS + 1):
        async with snapshot(database) as seen:
            named = await seen.pictures()
            # What was gone before is looked for later: the transaction should be short.
            if await pictures.bring(named.keys() - pictures.gone) and look < LOOKS:
                continue
            tables, revision = await _write_tables(folder, seen), seen.revision
        if await pictures.find(named, database):
            break
    else:
        log.warning("Pictures changed during each of %d looks: those not found count as lost", LOOKS)
    lost = await pictures.bring(named.keys() - pictures.there)  # once more: a row is written before its file
    for name in pictures.there - named.keys():
        picture_file(folder, name).unlink()
    kept = {name: picture_file(folder, name).stat().st_size for name in sorted(pictures.there & named.keys())}
    return Manifest(
        format=FORMAT,
        made_at=now.isoformat(timespec="seconds"),
        program=program_version(),
        revision=revision,
        database="postgresql" if database.has_time else "sqlite",
        tables=tables,
        pictures=kept,
        lost=sorted(lost),
    )


class _Pictures:
    """The pictures of a backup that is being made.

    `there` are the names of those that it has, and `gone` of those that were not found.
    """

    def __init__(self, *, folder: Path, artifacts: Artifacts, earlier: Path | None) -> None:
        make_folders(folder, ())
        self.there, self.gone = set[str](), set[str]()
        self._lost: dict[str, float | None] = {}  # since when the rows keep them
        self._folder, self._artifacts, self._earlier = folder, artifacts, earlier

    async def bring(self, names: AbstractSet[str]) -> set[str]:
        """Copy the pictures that the backup lacks; return the names of those that cannot be found."""
        new = names - self.there
        missing = await collect(self._folder, new, self._artifacts, earlier=self._earlier)
        self.there |= new - missing
        self.gone |= missing
        return missing

    async def find(self, named: Mapping[str, float | None], database: Database) -> bool:
        """Search a snapshot's missing pictures again, and copy them; return whether the others are all lost.

        `named` are the pictures of the snapshot. A picture that is not found is lost if its row says the same
        before and after the search: kept since the same time. Then it was not deleted during the search.
        """
        missing = await self.bring({name for name, _ in named.items() - self._lost.items()})
        if missing:
            searched = {name: named[name] for name in missing}
            self._lost.update(searched.items() & (await _named(database)).items())
        return all(name in self.there for name, _ in named.items() - self._lost.items())


async def _named(database: Database) -> dict[str, float | None]:
    """Return the pictures that the rows name now, each with the time since when it is kept."""
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
