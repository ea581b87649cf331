"""Restores a backup: checks all of it, then loads the rows and stores the pictures in one transaction.

A restore that was interrupted can be repeated: it has loaded no row, and pictures that are there already are
left as they are. The backup may come from anybody: rows that do not fit are refused before any picture is
stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bot.backup.manifest import Manifest, damages, read_manifest, table_file
from bot.backup.picture_files import bring_back
from bot.backup.places import chosen
from bot.backup.table_files import read_rows
from bot.domain.errors import BackupRefused, StoreUnavailable
from bot.files import Artifacts
from bot.process.threads import in_uninterruptible_thread
from bot.store.backups.load import Rows, is_empty, load, not_empty
from bot.store.database.database import Database
from bot.store.database.upgrade import is_known

SHOWN_DAMAGES = 3


@dataclass(frozen=True, kw_only=True)
class Restored:
    """The backup that was restored."""

    folder: Path
    manifest: Manifest


async def restore_backup(place: Path, database: Database, artifacts: Artifacts) -> Restored:
    """Restore the backup `place`, or the newest in that folder, into an empty database and empty artifacts.

    Raises BackupRefused or StoreUnavailable; a damaged backup, or a place in use, has changed nothing.
    """
    folder = chosen(place)
    manifest = read_manifest(folder)
    if not is_known(manifest.revision):
        raise BackupRefused(
            f"{folder} was made by a newer version of the bot ({manifest.program or manifest.revision}): "
            "restore it with that version."
        )
    if found := await in_uninterruptible_thread(lambda: damages(folder, manifest)):
        shown = ", ".join(found[:SHOWN_DAMAGES]) + (" …" if len(found) > SHOWN_DAMAGES else "")
        which = f"1 file of {folder} is" if len(found) == 1 else f"{len(found)} files of {folder} are"
        raise BackupRefused(f"{which} missing or damaged ({shown}): restore another backup.")
    if not await is_empty(database):
        raise not_empty(database)
    await _check_artifacts(manifest, artifacts)
    tables = (
        Rows(table=name, columns=table.columns, some=read_rows(table_file(folder, name), most=table.rows))
        for name, table in manifest.tables.items()
    )

    async def pictures() -> None:
        await bring_back(folder, manifest.pictures, artifacts)

    await load(database, manifest.revision, tables, last=pictures)
    return Restored(folder=folder, manifest=manifest)


async def _check_artifacts(manifest: Manifest, artifacts: Artifacts) -> None:
    """Raise StoreUnavailable where the place of pictures has a file that is not in the backup."""
    async for found in artifacts.listing():
        if others := found.keys() - manifest.pictures.keys():
            raise StoreUnavailable(
                f"The place of pictures is not empty: it has {min(others)}, which is not in the backup. Let "
                "queue.artifacts name an empty place."
            )
