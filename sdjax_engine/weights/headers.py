"""The header of a safetensors file, read without its tensors."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.wording import first_line, in_bytes

PICKLE_STARTS = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
POINTER_START = b"version https://git-lfs"
LONGEST_HEADER = 32 * 2**20  # bytes; thousands of tensors with training metadata take one or two
NUMBERS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4"}
WHY_NO_PICKLES = "reading a pickle can run any code: save the checkpoint as safetensors"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A tensor in a file: its shape, the code of its dtype, its offset in the file, its size in bytes."""

    shape: tuple[int, ...]
    dtype: str
    offset: int
    size: int


@dataclass(frozen=True, kw_only=True)
class Header:
    """All tensors of a file by name, and the file's metadata."""

    entries: Mapping[str, Entry]
    notes: Mapping[str, str]


def read_header(file: Path) -> Header:
    """Return the header of a safetensors file; raises UnreadableCheckpoint for an incomplete file."""
    check_start(file)
    try:
        with file.open("rb") as opened:
            length = int.from_bytes(opened.read(8), "little")
            if LONGEST_HEADER < length < file.stat().st_size:
                raise UnreadableCheckpoint(f"{file} has a header of more than {in_bytes(LONGEST_HEADER)}.")
            with safe_open(file, "np"):  # checks that the tensors fill the file exactly
                described = json.loads(opened.read(length))
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        raise UnreadableCheckpoint(f"{file} is not a whole safetensors file: {first_line(error)}") from error
    notes = described.pop("__metadata__", None) or {}
    entries = {}
    for name, each in described.items():
        begin, end = each["data_offsets"]
        entries[name] = Entry(
            shape=tuple(each["shape"]), dtype=each["dtype"], offset=8 + length + begin, size=end - begin
        )
    return Header(entries=entries, notes=notes)


def read_numbers(file: Path, entries: Mapping[str, Entry]) -> dict[str, float]:
    """Return the tensors of one number each, by name; those of another count or dtype are left out.

    Raises UnreadableCheckpoint.
    """
    kinds = {name: NUMBERS.get(each.dtype) for name, each in entries.items() if math.prod(each.shape) == 1}
    found = {}
    try:
        with file.open("rb") as opened:
            for name, kind in kinds.items():
                if kind is not None:
                    opened.seek(entries[name].offset)
                    found[name] = float(np.frombuffer(opened.read(entries[name].size), kind)[0])
    except (OSError, ValueError) as error:
        raise UnreadableCheckpoint(f"{file} cannot be read: {first_line(error)}") from error
    return found


def check_start(file: Path) -> None:
    """Raise UnreadableCheckpoint for a file of another format, recognised by its first bytes."""
    try:
        with file.open("rb") as opened:
            start = opened.read(32)
    except OSError as error:
        raise UnreadableCheckpoint(f"{file} cannot be read: {first_line(error)}") from error
    if not start:
        raise UnreadableCheckpoint(f"{file} is empty, and so not a whole safetensors file.")
    if start.startswith(PICKLE_STARTS):
        raise UnreadableCheckpoint(f"{file} is a pickle, and {WHY_NO_PICKLES}.")
    if start.startswith(POINTER_START):
        raise UnreadableCheckpoint(
            f"{file} is a pointer of Git LFS, not a whole safetensors file: fetch it with `git lfs pull`."
        )
