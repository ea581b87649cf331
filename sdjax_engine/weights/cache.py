"""Converted parameters kept on disk, so that a second start reads them directly: one file for each network.

A file is named after its source and after what it was made from: all bytes of the source's files, the
network's configuration and the layout's version. It is written beside its place and moved there when it is
whole, unless the source has changed meanwhile. A file that does not fit is written anew.

Beside it lies a note: a digest of the file's header and of the code that has checked the source's tensors and
the file against the network. Where that is this very code, a start believes the header and builds no network;
any other code checks both as if nothing had been noted.
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
from sdjax_engine.request import UnreadableCheckpoint
from sdjax_engine.weights.contents import files_of
from sdjax_engine.weights.digests import Digests
from sdjax_engine.weights.headers import Header, read_header
from sdjax_engine.weights.kept import Placed, Writer, fits, kept_arrays
from sdjax_engine.weights.networks import Plan

LAYOUT = 1  # to be raised with every change of what a file holds under the same names and shapes
FOLDER = "weights"
SECONDS_UNTIL_GIVEN_UP = 3600.0  # a file that is being written is touched all the time


@dataclass(frozen=True, kw_only=True)
class Cache:
    """The kept parameters of one source; what is kept of others in the same folder is not touched.

    `digests` are those of the source's files.
    """

    folder: Path
    source: str
    digests: Digests

    def read(self, name: str, plan: Plan) -> Iterator[Placed] | None:
        """Give the parameters of the network `name`, or return None where none are kept that fit.

        Raises UnreadableCheckpoint, while giving, for a file that cannot be read any more.
        """
        file = self.place(name, plan)
        header = header_of(file)
        if header is None:
            return None
        if not is_noted(file, header):
            if not fits(header, plan):
                return None
            with suppress(OSError):
                note(file, header)
        return kept_arrays(file, header, plan.dtype)

    def has_checked(self, name: str, plan: Plan) -> bool:
        """Whether this code has found the source's tensors, and what is kept of them, to be the network's."""
        file = self.place(name, plan)
        header = header_of(file)
        return header is not None and is_noted(file, header)

    def keep(self, name: str, plan: Plan, arrays: Iterable[Placed]) -> Iterator[Placed]:
        """Pass the parameters of the network `name` on and keep them; a full disk only ends the keeping."""
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

    def place(self, name: str, plan: Plan) -> Path:
        """Where the parameters of the network `name` are kept; raises UnreadableCheckpoint."""
        files = [self.digests.of(file) for file in files_of(plan.part)]
        made_from = [LAYOUT, files, plan.part.model, plan.part.config]
        return self.folder / FOLDER / f"{self.group(name, plan)}-{short(made_from)}.safetensors"

    def group(self, name: str, plan: Plan) -> str:
        """What the files of one network of one source have in common, whatever they were made from."""
        return short([self.source, name, np.dtype(plan.dtype).name])

    def forget_others(self, name: str, plan: Plan, place: Path) -> None:
        """Remove what is kept of earlier files of this network, and what was never finished."""
        given_up = time.time() - SECONDS_UNTIL_GIVEN_UP
        mine = (place, note_of(place))
        for file in place.parent.glob(f"{self.group(name, plan)}-*"):
            with suppress(OSError):
                unfinished = file.suffix == ".part"
                if file not in mine and (not unfinished or file.stat().st_mtime < given_up):
                    file.unlink()


def header_of(file: Path) -> Header | None:
    """Return the header of a kept file; None where there is no whole one."""
    try:
        return read_header(file)
    except UnreadableCheckpoint:
        return None


def note_of(file: Path) -> Path:
    """Return where it is noted which code has checked a kept file."""
    return file.with_suffix(".checked")


def note(file: Path, header: Header) -> None:
    """Note that this code has checked a kept file of this header; raises OSError."""
    note_of(file).write_text(mark(header), encoding="ascii")


def is_noted(file: Path, header: Header) -> bool:
    """Whether this code has checked a kept file of this header."""
    try:
        return note_of(file).read_text(encoding="ascii") == mark(header)
    except (OSError, ValueError):
        return False


def mark(header: Header) -> str:
    """Return what stands for this code and this header."""
    return short([source_digest(), {key: dataclasses.astuple(each) for key, each in header.entries.items()}])


def written(writer: Writer, placed: Placed) -> bool:
    """Whether a parameter could be written."""
    try:
        writer.write(*placed)
    except OSError:
        return False
    return True


def short(content: object) -> str:
    """Return some digits that stand for a content."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:20]
