"""Where results are kept, told apart by what is seen there and not by what it is called.

A folder may be called the same on two machines and be two, or be called differently and be one that both
have mounted. So a folder holds a small file with a word of its own, and whoever reads the same word sees the
same files. Any other place is what its address says.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from pathlib import Path

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from bot.discretion import discreet
from bot.errors import StoreUnavailable
from bot.ownership import make_folder, make_private

MARK = ".place"


def place_of(url: str) -> str:
    """The place that results go to: equal for two processes where they see the same files; blocks.

    Raises StoreUnavailable for a folder that cannot be written.
    """
    files, root = url_to_fs(url)
    if isinstance(files, LocalFileSystem):
        return f"folder {_word_in(Path(root))}"
    if isinstance(files, MemoryFileSystem):
        return f"memory {secrets.token_hex(8)}"  # nobody else sees it
    return discreet(str(files.unstrip_protocol(root)))  # it is stored where others read it


def _word_in(folder: Path) -> str:
    try:
        make_folder(folder)
        mark = folder / MARK
        if mark.exists():
            make_private(folder)  # the mark makes it ours; an earlier version let everybody read it
        else:
            _write_once(mark, secrets.token_hex(16))
        return mark.read_text(encoding="utf-8")
    except OSError as error:
        raise StoreUnavailable(
            f"Results in {folder} cannot be written: {error.strerror or error}."
        ) from error


def _write_once(mark: Path, word: str) -> None:
    """Whoever is first writes the word, whole; to the others it is there."""
    handle, part = tempfile.mkstemp(dir=mark.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(word)
        os.link(part, mark)
    except FileExistsError:
        return
    finally:
        Path(part).unlink(missing_ok=True)
