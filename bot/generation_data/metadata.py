"""The texts in a picture's file: PNG text chunks, EXIF of PNG, WebP and JPEG. No pixels are decoded."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence

from bot.generation_data.data import MAX_BYTES

PNG = b"\x89PNG\r\n\x1a\n"
JPEG = b"\xff\xd8"
EXIF = b"Exif\0\0"
MAX_PARTS = 4096  # chunks or segments of a file
MAX_TEXTS = 64
MAX_ENTRIES = 256  # of an EXIF directory
MAX_BLOCKS = 4  # of EXIF in a file

EXIF_DIRECTORY, USER_COMMENT, MAKER_NOTE = 0x8769, 0x9286, 0x927C
DESCRIPTIONS = range(0x0100, 0x0111)  # ComfyUI writes `prompt:{…}` and `workflow:{…}` into such tags
OWN_NOTE = b"sdjax\0"

KEYS = ("sdjax", "parameters", "invokeai_metadata", "prompt", "workflow", "sd-metadata", "UserComment")
"""The names under which tools write generation data, the most exact first."""


def texts_of(file: bytes) -> dict[str, str]:
    """Return the texts of `KEYS` in a picture's file; empty where there are none.

    A text of more than `MAX_BYTES` is left out, and so is a damaged one.
    """
    found: dict[str, str] = {}
    for name, text in _texts(file):
        if name in KEYS and len(found) < MAX_TEXTS:
            found.setdefault(name, text)
    return {name: found[name] for name in KEYS if name in found}


def _texts(file: bytes) -> Iterator[tuple[str, str]]:
    if file.startswith(PNG):
        yield from _png(file)
    elif file.startswith(b"RIFF") and file[8:12] == b"WEBP":
        yield from _webp(file)
    elif file.startswith(JPEG):
        yield from _jpeg(file)


def _png(file: bytes) -> Iterator[tuple[str, str]]:
    position, texts, blocks = len(PNG), 0, 0
    for _ in range(MAX_PARTS):
        if position + 12 > len(file) or texts == MAX_TEXTS:
            return
        length, kind = struct.unpack_from(">I4s", file, position)
        data = file[position + 8 : position + 8 + length] if kind != b"IDAT" else b""
        position += 12 + length
        if kind == b"eXIf" and blocks < MAX_BLOCKS:
            blocks += 1
            yield from _exif(data)
        elif kind in (b"tEXt", b"zTXt", b"iTXt") and _keyword(data) in KEYS:
            texts += 1
            if (text := _chunk_text(kind, data)) is not None:
                yield text


def _keyword(data: bytes) -> str:
    return data[:80].partition(b"\0")[0].decode("latin-1")


def _chunk_text(kind: bytes, data: bytes) -> tuple[str, str] | None:
    name, rest = _keyword(data), data.partition(b"\0")[2]
    if kind == b"tEXt":
        body, encoding = rest, "latin-1"
    elif kind == b"zTXt":
        body, encoding = _inflated(rest[1:]), "latin-1"
    else:
        compressed, rest = rest[:1] == b"\1", rest[2:]
        _, _, rest = rest.partition(b"\0")  # the language
        _, _, rest = rest.partition(b"\0")  # the keyword in that language
        body, encoding = _inflated(rest) if compressed else rest, "utf-8"
    if not body or len(body) > MAX_BYTES:
        return None
    if encoding == "latin-1" and name != "parameters":
        encoding = "utf-8"  # some tools write their JSON as UTF-8 into tEXt
    return name, _decoded(body, encoding)


def _decoded(body: bytes, encoding: str) -> str:
    try:
        return body.decode(encoding)
    except UnicodeDecodeError:
        return body.decode("latin-1" if encoding == "utf-8" else encoding, "replace")


def _inflated(data: bytes) -> bytes:
    """Return the decompressed data; empty where there is more than `MAX_BYTES`, or where it is damaged."""
    try:
        decompressor = zlib.decompressobj()
        body = decompressor.decompress(data, MAX_BYTES + 1)
    except zlib.error:
        return b""
    return body if decompressor.eof and len(body) <= MAX_BYTES else b""


def _webp(file: bytes) -> Iterator[tuple[str, str]]:
    position, blocks = 12, 0
    for _ in range(MAX_PARTS):
        if position + 8 > len(file) or blocks == MAX_BLOCKS:
            return
        kind, length = struct.unpack_from("<4sI", file, position)
        if kind == b"EXIF":
            blocks += 1
            yield from _exif(file[position + 8 : position + 8 + length])
        position += 8 + length + length % 2


def _jpeg(file: bytes) -> Iterator[tuple[str, str]]:
    position, blocks = len(JPEG), 0
    for _ in range(MAX_PARTS):
        if position + 4 > len(file) or file[position] != 0xFF or blocks == MAX_BLOCKS:
            return
        kind, length = struct.unpack_from(">BH", file, position + 1)
        if kind == 0xDA or length < 2:  # the pixels begin
            return
        if kind == 0xE1 and file.startswith(EXIF, position + 4):
            blocks += 1
            yield from _exif(file[position + 4 : position + 2 + length])
        position += 2 + length


def _exif(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield the texts of a TIFF structure; nothing more from the place where it is damaged."""
    data = data.removeprefix(EXIF)
    order = {b"II": "<", b"MM": ">"}.get(data[:2])
    if order is None or len(data) < 8:
        return
    (first,) = struct.unpack_from(order + "I", data, 4)
    for tag, value in _directory(data, first, order, (EXIF_DIRECTORY, *DESCRIPTIONS)):
        if tag == EXIF_DIRECTORY and len(value) == 4:
            place = struct.unpack(order + "I", value)[0]
            for inner, body in _directory(data, place, order, (USER_COMMENT, MAKER_NOTE)):
                if inner == USER_COMMENT:
                    yield "UserComment", _comment(body)
                elif inner == MAKER_NOTE and body.startswith(OWN_NOTE):
                    yield "sdjax", _note(body)
        elif tag in DESCRIPTIONS:
            name, colon, text = _decoded(value.rstrip(b"\0"), "utf-8").partition(":")
            if colon:
                yield name.casefold(), text


def _directory(data: bytes, position: int, order: str, wanted: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """Yield the wanted tags of one EXIF directory, each once, and their bytes; a long value is left out."""
    left = set(wanted)
    if position + 2 > len(data):
        return
    (count,) = struct.unpack_from(order + "H", data, position)
    for entry in range(position + 2, position + 2 + 12 * min(count, MAX_ENTRIES), 12):
        if entry + 12 > len(data):
            return
        tag, kind, number = struct.unpack_from(order + "HHI", data, entry)
        if tag not in left:
            continue
        left.discard(tag)
        length = number * {3: 2, 4: 4, 5: 8}.get(kind, 1)
        if length > MAX_BYTES * 2:
            continue
        (offset,) = struct.unpack_from(order + "I", data, entry + 8)
        begin = entry + 8 if length <= 4 else offset
        yield tag, data[begin : begin + length]


def _note(body: bytes) -> str:
    try:
        return body.removeprefix(OWN_NOTE).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return ""


def _comment(body: bytes) -> str:
    """Return the text of a UserComment: UTF-16 of either order after `UNICODE`, else UTF-8."""
    kind, text = body[:8], body[8:]
    if kind != b"UNICODE\0":
        return _decoded(text.rstrip(b"\0") if kind in (b"ASCII\0\0\0", bytes(8)) else body, "utf-8")
    # A1111 writes big-endian text even into little-endian files. The zero bytes of Latin letters tell which.
    little = text[1::2].count(0) > text[0::2].count(0)
    return text.decode("utf-16-le" if little else "utf-16-be", "replace")
