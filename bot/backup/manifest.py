"""The manifest of a backup: what is in it, with the SHA-256 of every file; its own is in a file beside it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from bot.backup.durable import sha256_of, write_durably
from bot.domain.errors import BackupRefused

FORMAT = 1
MANIFEST, HASH = "manifest.json", "manifest.sha256"
TABLES, PICTURES = "tables", "pictures"

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
TableName = Annotated[str, StringConstraints(pattern=r"^[a-z_]+$")]
PictureName = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{2}/[0-9a-f]{64}\.[a-z0-9]+$")]


class TableFile(BaseModel):
    """One table's file: its columns in the order of the values, its count of rows, its bytes and hash."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    columns: tuple[str, ...]
    rows: int
    bytes: int
    sha256: Sha256


class Manifest(BaseModel):
    """All that a backup holds.

    `revision` is the migration of the tables, which are in the order in which they can be filled. `pictures`
    are the sizes in bytes of the files by name; the name of a picture is its hash. `lost` are the pictures
    that were gone or damaged already. `made_at` is a time in UTC, `database` is postgresql or sqlite.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int
    made_at: str
    program: str
    revision: str
    database: str
    tables: Mapping[TableName, TableFile]
    pictures: Mapping[PictureName, int]
    lost: Sequence[str] = ()


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest and its hash."""
    data = manifest.model_dump_json(indent=1).encode()
    write_durably(folder / MANIFEST, data)
    write_durably(folder / HASH, f"{hashlib.sha256(data).hexdigest()}  {MANIFEST}\n".encode())


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a backup; raises BackupRefused for a damaged one, or one of another format."""
    try:
        if not (is_plain(folder / MANIFEST) and is_plain(folder / HASH)):
            raise _damaged(folder)
        data = (folder / MANIFEST).read_bytes()
        told = (folder / HASH).read_text(encoding="ascii").partition(" ")[0]
    except (OSError, UnicodeDecodeError) as error:
        raise _damaged(folder) from error
    if hashlib.sha256(data).hexdigest() != told:
        raise _damaged(folder)
    try:
        found = json.loads(data).get("format")
        if found != FORMAT:
            raise BackupRefused(
                f"{folder} has format {found}, and this version of the bot reads format {FORMAT}: restore it "
                "with the version that made it, or a newer one."
            )
        return Manifest.model_validate_json(data)
    except (ValueError, AttributeError, RecursionError, ValidationError) as error:
        raise _damaged(folder) from error


def table_file(folder: Path, name: str) -> Path:
    """Return the file of a table."""
    return folder / TABLES / f"{name}.jsonl.gz"


def picture_file(folder: Path, name: str) -> Path:
    """Return the file of a picture."""
    return folder / PICTURES / name


def hash_in_name(name: str) -> str:
    """Return the SHA-256 that the name of a picture says."""
    return name[3:67]


def damages(folder: Path, manifest: Manifest) -> list[str]:
    """Return the files of a backup that are missing or differ from their hashes, as paths in it. Blocks."""
    expected = {table_file(folder, name): table.sha256 for name, table in manifest.tables.items()}
    expected |= {picture_file(folder, name): hash_in_name(name) for name in manifest.pictures}
    return [str(file.relative_to(folder)) for file, sha256 in expected.items() if not _is(file, sha256)]


def is_plain(file: Path) -> bool:
    """Return whether this is a file: no link, and no pipe or device, whose reading would never end."""
    return file.is_file() and not file.is_symlink()


def _is(file: Path, sha256: str) -> bool:
    try:
        return is_plain(file) and sha256_of(file) == sha256
    except OSError:
        return False


def _damaged(folder: Path) -> BackupRefused:
    return BackupRefused(f"The manifest of {folder} is missing or damaged: restore another backup.")
