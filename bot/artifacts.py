"""Files of finished pictures, named by what is in them; a folder or any place fsspec knows."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import re
import tempfile
from pathlib import Path

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from bot.errors import ConfigurationError, MissingArtifact, StoreUnavailable

_NAME = re.compile(r"[0-9a-f]{2}/[0-9a-f]{64}\.[a-z0-9]+")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Artifacts:
    """Content-addressed files: the same bytes have the same name and are stored once.

    Every call works in a thread. Raises StoreUnavailable, with one sentence that names the place, when
    it cannot be read or written.
    """

    def __init__(self, url: str) -> None:
        try:
            self._files, self._root = url_to_fs(url)
        except (ValueError, ImportError) as error:
            raise ConfigurationError(f"Results cannot be kept at {url}: {error}.") from error
        self._local = isinstance(self._files, LocalFileSystem)

    async def put(self, data: bytes, suffix: str) -> str:
        """Store `data` and return its name, such as "ab/abcd….png"; whole or not at all."""
        digest = hashlib.sha256(data).hexdigest()
        name = _checked(f"{digest[:2]}/{digest}.{suffix.removeprefix('.')}")
        await asyncio.to_thread(self._put, name, data)
        return name

    async def get(self, name: str) -> bytes:
        """The bytes stored under `name`. Raises MissingArtifact when the file is gone."""
        return await asyncio.to_thread(self._get, _checked(name))

    async def delete(self, name: str) -> None:
        """Delete the file, if it is there."""
        await asyncio.to_thread(self._delete, _checked(name))

    def _put(self, name: str, data: bytes) -> None:
        try:
            if self._local:
                _write_atomically(Path(self._root, name), data)
            else:
                self._files.pipe_file(self._path(name), data)
        except OSError as error:
            raise self._unavailable(error, "written") from error

    def _get(self, name: str) -> bytes:
        try:
            return bytes(self._files.cat_file(self._path(name)))
        except FileNotFoundError as error:
            raise MissingArtifact(f"The file {name} is gone from {self._root}.") from error
        except OSError as error:
            raise self._unavailable(error, "read") from error

    def _delete(self, name: str) -> None:
        try:
            self._files.rm_file(self._path(name))
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._unavailable(error, "deleted") from error

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _unavailable(self, error: OSError, verb: str) -> StoreUnavailable:
        if error.errno in _FULL:
            return StoreUnavailable(f"The disk that holds {self._root} is full: free some space.")
        return StoreUnavailable(f"Results in {self._root} cannot be {verb}: {error.strerror or error}.")


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):  # names come from a database that others may write: none leaves the folder
        raise ValueError(f"{name!r} is not the name of an artifact")
    return name


def _write_atomically(path: Path, data: bytes) -> None:
    """Write under another name, make it durable, rename: no reader and no crash sees half a file."""
    if path.exists():
        return  # it has this name only once its bytes were whole and durable
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(part).replace(path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
