"""The place that holds picture files, named by their content: a folder, or any address of fsspec."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import logging
import os
import re
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from bot.config.mistakes import quoted
from bot.domain.errors import ConfigurationError, MissingArtifact, ResultsUnavailable
from bot.process.private_files import make_folder
from bot.process.threads import Threads
from bot.telemetry.redaction import redact

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

_NAME = re.compile(r"[0-9a-f]{2}/[0-9a-f]{64}\.[a-z0-9]+")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FOLDERS = tuple(f"{number:02x}" for number in range(256))
PART = ".part"
CALLS_AT_ONCE = 16
READ_SECONDS = 5.0  # of what a picture can do without
CALL_SECONDS = 60.0  # a large file over a slow line takes less
PART_SECONDS = 3600.0  # no write takes longer: an older partial file is of a killed write


class Artifacts:
    """Content-addressed files: the same bytes have the same name and are stored once.

    Every call works in a thread. Raises ResultsUnavailable, with one sentence that names the place, when
    it cannot be read or written, or does not answer within `call_seconds`.
    """

    def __init__(self, url: str, *, call_seconds: float = CALL_SECONDS) -> None:
        self._files, self._root = open_place(url)
        self._place = redact(self._root)  # for messages
        self._local = isinstance(self._files, LocalFileSystem)
        self._call_seconds = call_seconds
        self._threads = Threads("files", most=CALLS_AT_ONCE)

    async def name(self, data: bytes, suffix: str) -> str:
        """Return the name of `data`, such as "ab/abcd….png"; writes nothing."""
        return await self._call("written", _name, data, suffix)

    async def put(self, data: bytes, suffix: str) -> str:
        """Store `data` completely or not at all, and return its name."""
        name = await self.name(data, suffix)
        await self._call("written", self._put, name, data)
        return name

    async def get(self, name: str, *, tidy: bool = True) -> bytes:
        """Return the bytes stored under `name`.

        Raises MissingArtifact when the file is gone, or when its content does not match its name: such a file
        is deleted, so that it can be stored again. Without `tidy` it is left.
        """
        return await self._call("read", self._get, _checked(name), tidy=tidy)

    def reader(self, loop: asyncio.AbstractEventLoop) -> Callable[[str], bytes | None]:
        """Return a function for other threads: the PNG of a sha256, None where it cannot be read in time."""

        def read(digest: str) -> bytes | None:
            name = name_of_png(digest)
            if not is_name(name):
                return None
            found = asyncio.run_coroutine_threadsafe(self.get(name, tidy=False), loop)
            try:
                return found.result(READ_SECONDS)
            except (MissingArtifact, ResultsUnavailable, TimeoutError):
                return None

        return read

    async def delete(self, name: str) -> None:
        """Delete the file, if it exists."""
        await self._call("deleted", self._delete, _checked(name))

    async def listing(self) -> AsyncIterator[dict[str, int]]:
        """Yield all files as names and sizes in bytes, some at a time."""
        for folder in _FOLDERS:
            found = await self._call("listed", self._listed, folder)
            if found:
                yield found

    async def sweep_parts(self) -> int:
        """Delete the partial files of killed writes, and return how many.

        Only a folder has partial files: elsewhere a file appears once it is complete.
        """
        return await self._call("deleted", self._sweep_parts) if self._local else 0

    async def _call(self, verb: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await self._threads.run_within(self._call_seconds, work, *args, **kwargs)
        except TimeoutError as error:
            raise self._unavailable(f"no answer within {self._call_seconds:g} s", verb) from error

    def _put(self, name: str, data: bytes) -> None:
        with self._named("written"):
            if self._local:
                _write_atomically(Path(self._root, name), data)
            else:
                self._files.pipe_file(self._path(name), data)

    def _get(self, name: str, *, tidy: bool) -> bytes:
        try:
            with self._named("read"):
                data = bytes(self._files.cat_file(self._path(name)))
        except FileNotFoundError as error:
            raise MissingArtifact(f"The file {name} is gone from {self._place}.") from error
        if _name(data, name.rpartition(".")[2]) != name:
            log.error("the file %s in %s is damaged%s", name, self._place, " and is deleted" if tidy else "")
            if tidy:
                self._delete(name)
            raise MissingArtifact(f"The file {name} in {self._place} was damaged.")
        return data

    def _delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError), self._named("deleted"):
            self._files.rm_file(self._path(name))

    def _listed(self, folder: str) -> dict[str, int]:
        try:
            with self._named("listed"):
                self._files.invalidate_cache(self._path(folder))
                found: list[dict[str, Any]] = self._files.ls(self._path(folder), detail=True)
        except FileNotFoundError:
            return {}
        named = {f"{folder}/{entry['name'].rpartition('/')[2]}": entry["size"] for entry in found}
        return {name: int(size or 0) for name, size in named.items() if _NAME.fullmatch(name)}

    def _sweep_parts(self) -> int:
        oldest, swept = time.time() - PART_SECONDS, 0
        with self._named("deleted"):
            for part in Path(self._root).glob(f"??/.*{PART}"):
                with contextlib.suppress(FileNotFoundError):
                    if part.stat().st_mtime < oldest:
                        part.unlink()
                        swept += 1
        return swept

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    @contextlib.contextmanager
    def _named(self, verb: str) -> Iterator[None]:
        """Turn the errors of this place into one sentence, except for a missing file."""
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            if error.errno in _FULL:
                raise ResultsUnavailable(
                    f"The disk that holds {self._place} is full: free some space."
                ) from error
            raise self._unavailable(error.strerror or error, verb) from error
        except Exception as error:
            if self._local:
                raise
            # Clients of object stores have errors of their own kinds: no credentials, no such bucket.
            raise self._unavailable(error, verb) from error

    def _unavailable(self, reason: object, verb: str) -> ResultsUnavailable:
        words = redact(str(reason)).partition("\n")[0].rstrip(".") or type(reason).__name__
        return ResultsUnavailable(f"Results in {self._place} cannot be {verb}: {words}.")


def _name(data: bytes, suffix: str) -> str:
    digest = hashlib.sha256(data).hexdigest()
    return _checked(f"{digest[:2]}/{digest}.{suffix.removeprefix('.')}")


def open_place(url: str) -> tuple[Any, str]:
    """Return fsspec's client of a place for pictures, and the path of the place in it.

    Raises ConfigurationError, whose text has the place in quotes.
    """
    place = redact(url)
    try:
        files, root = url_to_fs(url)
    except ImportError as error:  # it says which package is missing
        raise ConfigurationError(f"queue.artifacts: {quoted(place)} cannot be used: {error}.") from error
    except ValueError as error:
        raise ConfigurationError(
            f"queue.artifacts: {quoted(place)} is neither a folder nor an address of fsspec."
        ) from error
    return files, str(root)


def name_of_png(digest: str) -> str:
    """Return the name of the PNG with this sha256, in hexadecimal; no name where it is none."""
    return f"{digest[:2]}/{digest}.png"


def is_name(text: str) -> bool:
    """Return whether this is a name that `put` may return."""
    return _NAME.fullmatch(text) is not None


def _checked(name: str) -> str:
    if not is_name(name):  # names come from a database that others may write: no name may leave the folder
        raise ValueError(f"{name!r} is not the name of an artifact")
    return name


def _write_atomically(path: Path, data: bytes) -> None:
    """Write to another name, sync, then rename: no reader sees a partial file, also after a crash."""
    if path.exists():
        return  # a file gets this name only when its bytes are complete and durable
    make_folder(path.parent)
    handle, part = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=PART)
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
