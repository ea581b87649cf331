"""Identifies the folder that results are kept in by what it holds, not by its path.

Two machines may use one path for two folders, or two paths for one folder that both have mounted. So the
folder holds a small file with a random word: processes that read the same word see the same files. Any other
address, such as s3://BUCKET/FOLDER, identifies itself.
"""

from __future__ import annotations

import errno
import os
import secrets
import tempfile
from pathlib import Path

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from bot.domain.errors import StoreUnavailable
from bot.process.private_files import make_folder, make_private
from bot.telemetry.redaction import redact

MARK = ".place"
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)  # file systems without hard links


def folder_id(url: str) -> str:
    """Return the identity of the folder at `url`: equal for two processes that see the same files. Blocks.

    Raises StoreUnavailable for a folder that cannot be written.
    """
    files, root = url_to_fs(url)
    if isinstance(files, LocalFileSystem):
        return f"folder {_word_in(Path(root))}"
    if isinstance(files, MemoryFileSystem):
        return f"memory {secrets.token_hex(8)}"  # no other process sees it
    # The identity is stored where other processes read it, so it holds no password.
    return redact(str(files.unstrip_protocol(root)))


def _word_in(folder: Path) -> str:
    try:
        make_folder(folder)
        mark = folder / MARK
        if mark.exists():
            make_private(folder)  # earlier versions let other users read it
        else:
            _write_once(mark, secrets.token_hex(16))
        return mark.read_text(encoding="utf-8")
    except OSError as error:
        raise StoreUnavailable(
            f"Results in {folder} cannot be written: {error.strerror or error}."
        ) from error


def _write_once(mark: Path, word: str) -> None:
    """Write the file atomically, unless another process has written it first."""
    handle, part = tempfile.mkstemp(dir=mark.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(word)
        try:
            os.link(part, mark)
        except FileExistsError:
            return
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            Path(part).rename(mark)  # of two first starts at once, one may have read the other word
    finally:
        Path(part).unlink(missing_ok=True)
