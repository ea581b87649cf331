"""Converted parameters kept on disk, so that a second start reads them directly: one file for each network.

A file is named after its source and its inputs: all bytes of the source's files, the network's configuration
and the layout's version. It is written to a partial file and renamed when complete, unless the source has
changed meanwhile. An invalid file is ignored and rewritten. A note beside it holds a digest of the file's
header and of the code that checked the source's tensors and the file against the network. When the digest
matches the present code, a start trusts the header and builds no network. Otherwise both are checked again.

It saves 18 of the 32 s of processor time of a start with SDXL's networks, from float16 to bfloat16. Its key
has the bytes of the source's files, the network's class, configuration and dtype, whether weights are INT8,
and `LAYOUT`.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sdjax_engine.compiling.executables import source_digest
from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.weights.checkpoint import files_of
from sdjax_engine.weights.networks import Part
from sdjax_engine.weights.reading import NUMPY_DTYPES, aligned, read_file, read_into
from sdjax_engine.weights.tensors import Stored, read_header

PART = 64 * 2**20  # bytes; the parts of a file are digested at the same time
BLOCK = 2**20
THREADS = 4
SUFFIX = ".digest"
KEEPS_CHANGE_TIME = os.name == "posix"
SECONDS_UNTIL_SETTLED = 2.0
"""A file that changed within this time before it was read may change again without a new change time."""

FileStatus = list[int]


@dataclass(frozen=True, kw_only=True, eq=False)
class Digests:
    """Digests of files, stored in `folder` between starts (None: not stored)."""

    folder: Path | None
    clock: Callable[[], float] = time.time
    _known: dict[Path, tuple[FileStatus, str]] = field(default_factory=dict, init=False, repr=False)

    def of(self, file: Path) -> str:
        """Return a sha256 over the sha256 of each part of `file`; raises UnreadableCheckpoint."""
        known = self._known.get(file)
        if known is None:
            known = self._known[file] = self._recalled(file) or self._read(file)
        return known[1]

    def is_unchanged(self, file: Path) -> bool:
        """Return whether `file` is unchanged since `of` returned its digest; raises OSError."""
        return self._known[file][0] == status_of(file)

    def _recalled(self, file: Path) -> tuple[FileStatus, str] | None:
        """Return the facts and the stored digest of `file`, or None if it may have changed."""
        place = self._place(file)
        if place is None:
            return None
        try:
            stored = json.loads(place.read_text(encoding="ascii"))
            status, digest = stored["facts"], stored["digest"]
            return (status, str(digest)) if status == status_of(file) else None
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None

    def _read(self, file: Path) -> tuple[FileStatus, str]:
        begun = self.clock()
        with read_file(file):
            status = status_of(file)
            with ThreadPoolExecutor(THREADS, thread_name_prefix="digest") as pool:
                parts = pool.map(lambda start: digest_part(file, start), range(0, status[0], PART))
                digest = hashlib.sha256(b"".join(parts)).hexdigest()
            settled = begun - change_time(status) > SECONDS_UNTIL_SETTLED and status == status_of(file)
        place = self._place(file)
        if place is not None and settled:
            with suppress(OSError):
                remember(place, status, digest)
        return status, digest

    def _place(self, file: Path) -> Path | None:
        """Return the path of the stored digest of `file`, or None if it cannot be stored."""
        if self.folder is None or not KEEPS_CHANGE_TIME:
            return None
        return self.folder / f"{hashlib.sha256(os.fsencode(file.absolute())).hexdigest()[:20]}{SUFFIX}"


def remember(place: Path, status: FileStatus, digest: str) -> None:
    """Write a digest and the facts of its file to `place`; raises OSError."""
    place.parent.mkdir(parents=True, exist_ok=True)
    part = place.with_name(f"{place.stem}.{os.getpid()}.part")
    part.write_text(json.dumps({"facts": status, "digest": digest}), encoding="ascii")
    part.replace(place)


def status_of(file: Path) -> FileStatus:
    """Return the size, inode, modification and change times of `file`; raises OSError."""
    status = file.stat()
    return [status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns]


def change_time(status: FileStatus) -> float:
    """Return the change time in `status`, in seconds since the epoch."""
    return status[3] / 1e9


def digest_part(file: Path, start: int) -> bytes:
    """Return the sha256 of the `PART` bytes of `file` from `start` on; raises OSError."""
    digest, view, left = hashlib.sha256(), memoryview(bytearray(BLOCK)), PART
    with file.open("rb", buffering=0) as opened:
        opened.seek(start)
        while left and (count := opened.readinto(view[:left])):
            digest.update(view[:count])
            left -= count
    return digest.digest()


CODES = {"float32": "F32", "bfloat16": "BF16", "int8": "I8"}
DTYPES: Mapping[str, npt.DTypeLike] = {**NUMPY_DTYPES, "I8": np.int8}
Header = Mapping[str, Stored]
"""The tensors of a cache file."""
Placed = tuple[str, npt.NDArray[Any]]
"""A parameter by its path with dots, which is also its name in the file."""


def expected(part: Part) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return the shape and the dtype's code of every tensor of a cache file."""
    return {key: (shape, CODES[np.dtype(dtype).name]) for key, (shape, dtype) in part.forms.items()}


def is_complete(header: Header, part: Part) -> bool:
    """Return whether a file with this header holds the parameters of this network."""
    return {key: (each.shape, each.dtype) for key, each in header.items()} == expected(part)


def kept_arrays(file: Path, header: Header) -> Iterator[Placed]:
    """Yield every parameter, in the order of the file; raises UnreadableCheckpoint."""
    with read_file(file) as opened:
        for key, entry in sorted(header.items(), key=lambda item: item[1].offset):
            array = aligned(entry.shape, np.dtype(DTYPES[entry.dtype]))
            read_into(array.reshape(-1).view(np.uint8), opened, entry.offset)
            yield key, array


class Writer:
    """Writes the parameters of a network into `file`, in any order; raises OSError."""

    def __init__(self, file: Path, part: Part) -> None:
        described: dict[str, dict[str, object]] = {}
        offsets: dict[str, int] = {}
        offset = 0
        for key, (shape, code) in expected(part).items():
            size = int(np.prod(shape, dtype=np.int64)) * np.dtype(DTYPES[code]).itemsize
            described[key] = {"dtype": code, "shape": shape, "data_offsets": (offset, offset + size)}
            offsets[key] = offset
            offset += size
        text = json.dumps(described).encode()
        text += b" " * (-len(text) % 8)
        self._offsets = {key: 8 + len(text) + each for key, each in offsets.items()}
        file.parent.mkdir(parents=True, exist_ok=True)
        self._opened = file.open("wb", buffering=0)
        self._opened.write(len(text).to_bytes(8, "little") + text)

    def write(self, key: str, array: npt.NDArray[Any]) -> None:
        """Write one parameter."""
        view = array.reshape(-1).view(np.uint8).data
        self._opened.seek(self._offsets[key])
        while view:
            view = view[self._opened.write(view) :]

    def finish(self) -> None:
        """Sync the file to the disk, and close it."""
        os.fsync(self._opened.fileno())
        self._opened.close()

    def close(self) -> None:
        """Close the file without syncing it."""
        self._opened.close()


LAYOUT = 1  # increase it when the content of files changes under the same names and shapes
INT8_LAYOUT = 1  # increase it when the same weights become other numbers or scales
FOLDER = "weights"
SECONDS_UNTIL_GIVEN_UP = 3600.0  # a process writes to its partial file more often than that


@dataclass(frozen=True, kw_only=True)
class Cache:
    """The cached parameters of one source; files of other sources in the folder are not touched.

    `digests` are the digests of the source's files.
    """

    folder: Path
    source: str
    digests: Digests

    @classmethod
    def of(cls, folder: Path | None, source: str) -> Cache | None:
        """Return the cached parameters of a source in `folder`; None without a folder."""
        if folder is None:
            return None
        return cls(folder=folder, source=source, digests=Digests(folder=folder / FOLDER))

    def read(self, name: str, part: Part) -> Iterator[Placed] | None:
        """Yield the parameters of the network `name`; return None if no valid file is cached.

        Iteration raises UnreadableCheckpoint for a file that can no longer be read.
        """
        file = self.place(name, part)
        header = header_of(file)
        if header is None:
            return None
        if not is_noted(file, header):
            if not is_complete(header, part):
                return None
            with suppress(OSError):
                note(file, header)
        return kept_arrays(file, header)

    def has_checked(self, name: str, part: Part) -> bool:
        """Return whether this code has checked the source's tensors and the cache file for the network."""
        file = self.place(name, part)
        header = header_of(file)
        return header is not None and is_noted(file, header)

    def keep(self, name: str, part: Part, arrays: Iterable[Placed]) -> Iterator[Placed]:
        """Pass the parameters of the network `name` on and cache them; a full disk only stops the caching."""
        place = self.place(name, part)
        unfinished = place.with_name(f"{place.stem}.{os.getpid()}.part")
        writer: Writer | None = None
        try:
            with suppress(OSError):
                writer = Writer(unfinished, part)
            for placed in arrays:
                if writer is not None and not written(writer, placed):
                    writer.close()
                    writer = None
                yield placed
            with suppress(OSError):
                if writer is not None and all(map(self.digests.is_unchanged, files_of(part))):
                    writer.finish()
                    unfinished.replace(place)
                    note(place, header_of(place) or {})
                    self.forget_others(name, part, place)
        finally:
            if writer is not None:
                writer.close()
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)

    def place(self, name: str, part: Part) -> Path:
        """Return the path of the cached parameters of the network `name`; raises UnreadableCheckpoint."""
        files = [self.digests.of(file) for file in files_of(part)]
        made_from = [LAYOUT, files, part.model, part.config, *([INT8_LAYOUT] if part.int8 else [])]
        return self.folder / FOLDER / f"{self.group(name, part)}-{short(made_from)}.safetensors"

    def group(self, name: str, part: Part) -> str:
        """Return the name that all cache files of one network of one source share."""
        return short([self.source, name, np.dtype(part.dtype).name, *(["int8"] if part.int8 else [])])

    def forget_others(self, name: str, part: Part, place: Path) -> None:
        """Remove the cache files of earlier versions of this network, and old partial files."""
        given_up = time.time() - SECONDS_UNTIL_GIVEN_UP
        mine = (place, note_of(place))
        for file in place.parent.glob(f"{self.group(name, part)}-*"):
            with suppress(OSError):
                unfinished = file.suffix == ".part"
                if file not in mine and (not unfinished or file.stat().st_mtime < given_up):
                    file.unlink()


def header_of(file: Path) -> Header | None:
    """Return the header of a cache file, or None if the file is missing or incomplete."""
    try:
        return read_header(file)[0]
    except UnreadableCheckpoint:
        return None


def note_of(file: Path) -> Path:
    """Return the path of the note of a cache file."""
    return file.with_suffix(".checked")


def note(file: Path, header: Header) -> None:
    """Write that this code has checked a cache file with this header; raises OSError."""
    note_of(file).write_text(mark(header), encoding="ascii")


def is_noted(file: Path, header: Header) -> bool:
    """Return whether this code has checked a cache file with this header."""
    try:
        return note_of(file).read_text(encoding="ascii") == mark(header)
    except (OSError, ValueError):
        return False


def mark(header: Header) -> str:
    """Return the digest of this code and this header."""
    described = {key: [each.shape, each.dtype, each.offset, each.size] for key, each in header.items()}
    return short([source_digest(), described])


def written(writer: Writer, placed: Placed) -> bool:
    """Write a parameter, and return whether that succeeded."""
    try:
        writer.write(*placed)
    except OSError:
        return False
    return True


def short(content: object) -> str:
    """Return the first digits of a digest."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:20]
