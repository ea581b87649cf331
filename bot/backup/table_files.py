"""The rows of a table as a file: compressed lines, each the JSON list of a row's values."""

from __future__ import annotations

import gzip
import json
import math
import os
import zlib
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

from bot.backup.durable import refused_by_disk, size_and_hash
from bot.backup.manifest import TableFile
from bot.domain.errors import BackupRefused
from bot.store.backups.dump import ROWS_AT_ONCE

MOST_CHARACTERS = 16 * 2**20  # of a row: a list for prompts or a preview has less than a tenth
_LEVEL = 3  # of the compression: quicker than a disk


async def write_rows(file: Path, columns: Sequence[str], rows: AsyncIterator[list[list[Any]]]) -> TableFile:
    """Write the rows durably, over an earlier file of this name, and return what the manifest says of it.

    Raises BackupRefused where the disk does not take them.
    """
    count = 0
    with _Writer(file) as writer:
        async for some in rows:
            writer.add(some)
            count += len(some)
    with refused_by_disk(file, "read"):
        size, sha256 = size_and_hash(file)
    return TableFile(columns=tuple(columns), rows=count, bytes=size, sha256=sha256)


def read_rows(file: Path, *, most: float = math.inf) -> Iterator[list[list[Any]]]:
    """Yield the rows of a file, up to ROWS_AT_ONCE at a time.

    Raises BackupRefused, also for more than `most` rows, or a row of more than MOST_CHARACTERS.
    """
    some: list[list[Any]] = []
    count = 0
    with refused_by_disk(file, "read"), gzip.open(file, "rt", encoding="utf-8", newline="\n") as lines:
        try:
            while line := lines.readline(MOST_CHARACTERS):
                count += 1
                if count > most or (len(line) == MOST_CHARACTERS and not line.endswith("\n")):
                    raise ValueError
                some.append(json.loads(line))
                if len(some) == ROWS_AT_ONCE:
                    yield some
                    some = []
        except (EOFError, ValueError, RecursionError, zlib.error):
            raise BackupRefused(f"{file} is damaged: restore another backup.") from None
    if some:
        yield some


class _Writer:
    """Compresses lines into a file that only this user may read."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __enter__(self) -> _Writer:
        with refused_by_disk(self._file, "written"):
            handle = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._raw = os.fdopen(handle, "wb")
        self._lines = gzip.GzipFile(fileobj=self._raw, mode="wb", compresslevel=_LEVEL, filename="", mtime=0)
        return self

    def add(self, rows: list[list[Any]]) -> None:
        lines = (json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows)
        with refused_by_disk(self._file, "written"):
            self._lines.write("".join(f"{line}\n" for line in lines).encode())

    def __exit__(self, *_error: object) -> None:
        with refused_by_disk(self._file, "written"), self._raw:
            self._lines.close()
            self._raw.flush()
            os.fsync(self._raw.fileno())
