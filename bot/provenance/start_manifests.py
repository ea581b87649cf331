"""The manifest of a picture that is given: kept with the clean picture, so that results can name it.

Only a small manifest that can be read and that says that AI took part is kept. A camera's manifest may hold a
place and a thumbnail, and is dropped with the other contents of the file.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable

from bot.provenance.inspection import Answer, Kind, manifest_marks
from bot.provenance.xmp import AFTER_HEADER, JPEG, PNG, chunk

MOST_BYTES = 64 * 1024
CHUNK_OF_PNG, CHUNK_OF_WEBP, APP11, START_OF_SCAN = b"caBX", b"C2PA", 0xEB, 0xDA
BOX = 8  # bytes of a box's header, which each segment of JPEG repeats


def kept_manifest(data: bytes) -> bytes | None:
    """Return the manifest store of a file where it is to be kept; as `marks_of`, for files of anybody."""
    store = manifest_in(data)
    if store is None or len(store) > MOST_BYTES:
        return None
    marks = manifest_marks(data)
    readable = any(mark.kind is Kind.MANIFEST and mark.says is Answer.YES for mark in marks)
    return store if readable else None


def given_files(files: Iterable[bytes]) -> Callable[[str], bytes | None]:
    """Return the `starts` of a `Signing`: files by their sha256, if their manifests are to be kept."""
    return {hashlib.sha256(file).hexdigest(): file for file in files if kept_manifest(file) is not None}.get


def with_manifest(png: bytes, store: bytes) -> bytes:
    """Return a clean PNG with a manifest store, whose hash does not fit it any more."""
    return png[:AFTER_HEADER] + chunk(CHUNK_OF_PNG, store) + png[AFTER_HEADER:]


def manifest_in(data: bytes) -> bytes | None:
    """Return the manifest store of a PNG, JPEG or WebP file as bytes; None without any."""
    if data.startswith(PNG):
        return _in_chunks(data, len(PNG), CHUNK_OF_PNG, ">I4s", after=4)
    if data.startswith(JPEG):
        return _in_jpeg(data)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return _in_chunks(data, 12, CHUNK_OF_WEBP, "<4sI", after=0)
    return None


def _in_chunks(data: bytes, at: int, wanted: bytes, header: str, *, after: int) -> bytes | None:
    while at + 8 <= len(data):
        one, other = struct.unpack_from(header, data, at)
        kind, length = (one, other) if isinstance(one, bytes) else (other, one)
        if kind == wanted:
            return data[at + 8 : at + 8 + length]
        at += 8 + length + (after or length % 2)
    return None


def _in_jpeg(data: bytes) -> bytes | None:
    """Join the segments; the first has the box's header, and the others repeat it."""
    parts: list[bytes] = []
    at = len(JPEG)
    while at + 4 <= len(data) and data[at] == 0xFF and data[at + 1] != START_OF_SCAN:
        length = int.from_bytes(data[at + 2 : at + 4], "big")
        segment = data[at + 4 : at + 2 + length]
        if data[at + 1] == APP11 and segment[:2] == b"JP":
            parts.append(segment[8 + BOX * bool(parts) :])
        at += 2 + max(2, length)
    return b"".join(parts) or None
