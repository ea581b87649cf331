"""Converted parameters kept on disk, so that a second start reads them directly: one file for each network.

A file is named after its source and its inputs: all bytes of the source's files, the network's configuration
and the layout's version. It is written to a partial file and renamed when complete, unless the source has
changed meanwhile. An invalid file is ignored and rewritten. A note beside it holds a digest of the file's
header and of the code that checked the source's tensors and the file against the network. When the digest
matches the present code, a start trusts the header and builds no network. Otherwise both are checked again.

It saves 18 of the 32 s of processor time of a start with SDXL's networks, from float16 to bfloat16. Its key
has the bytes of the source's files, the network's class, configuration and dtype, and `LAYOUT`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sdjax_engine.compiling.code_digest import source_digest
from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.weights.cache_file import Placed, Writer, is_complete, kept_arrays
from sdjax_engine.weights.contents import files_of
from sdjax_engine.weights.digests import Digests
from sdjax_engine.weights.headers import Header, read_header
from sdjax_engine.weights.networks import NetworkPlan

LAYOUT = 1  # increase it when the content of files changes under the same names and shapes
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

    def read(self, name: str, plan: NetworkPlan) -> Iterator[Placed] | None:
        """Yield the parameters of the network `name`; return None if no valid file is cached.

        Iteration raises UnreadableCheckpoint for a file that can no longer be read.
        """
        file = self.place(name, plan)
        header = header_of(file)
        if header is None:
            return None
        if not is_noted(file, header):
            if not is_complete(header, plan):
                return None
            with suppress(OSError):
                note(file, header)
        return kept_arrays(file, header, plan.dtype)

    def has_checked(self, name: str, plan: NetworkPlan) -> bool:
        """Return whether this code has checked the source's tensors and the cache file for the network."""
        file = self.place(name, plan)
        header = header_of(file)
        return header is not None and is_noted(file, header)

    def keep(self, name: str, plan: NetworkPlan, arrays: Iterable[Placed]) -> Iterator[Placed]:
        """Pass the parameters of the network `name` on and cache them; a full disk only stops the caching."""
        place = self.place(name, plan)
        part = place.with_name(f"{place.stem}.{os.getpid()}.part")
        writer: Writer | None = None
        try:
            with suppress(OSError):
                writer = Writer(part, plan)
            for placed in arrays:
                if writer is not None and not written(writer, placed):
                    writer.close()
                    writer = None
                yield placed
            with suppress(OSError):
                if writer is not None and all(map(self.digests.is_unchanged, files_of(plan.part))):
                    writer.finish()
                    part.replace(place)
                    note(place, read_header(place))
                    self.forget_others(name, plan, place)
        finally:
            if writer is not None:
                writer.close()
            with suppress(OSError):
                part.unlink(missing_ok=True)

    def place(self, name: str, plan: NetworkPlan) -> Path:
        """Return the path of the cached parameters of the network `name`; raises UnreadableCheckpoint."""
        files = [self.digests.of(file) for file in files_of(plan.part)]
        made_from = [LAYOUT, files, plan.part.model, plan.part.config]
        return self.folder / FOLDER / f"{self.group(name, plan)}-{short(made_from)}.safetensors"

    def group(self, name: str, plan: NetworkPlan) -> str:
        """Return the name that all cache files of one network of one source share."""
        return short([self.source, name, np.dtype(plan.dtype).name])

    def forget_others(self, name: str, plan: NetworkPlan, place: Path) -> None:
        """Remove the cache files of earlier versions of this network, and old partial files."""
        given_up = time.time() - SECONDS_UNTIL_GIVEN_UP
        mine = (place, note_of(place))
        for file in place.parent.glob(f"{self.group(name, plan)}-*"):
            with suppress(OSError):
                unfinished = file.suffix == ".part"
                if file not in mine and (not unfinished or file.stat().st_mtime < given_up):
                    file.unlink()


def header_of(file: Path) -> Header | None:
    """Return the header of a cache file, or None if the file is missing or incomplete."""
    try:
        return read_header(file)
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
    return short([source_digest(), {key: dataclasses.astuple(each) for key, each in header.entries.items()}])


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
