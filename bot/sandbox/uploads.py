"""Uploaded files: read from multipart requests, named and measured as in Discord."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from aiohttp import BodyPartReader, hdrs, web
from PIL import Image

from bot.sandbox.file_types import takes
from bot.sandbox.state import Attachment

FILE_FIELD = re.compile(r"files\[(\d{1,9})\]")
MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+", re.ASCII)
UNKNOWN_TYPE = "application/octet-stream"


@dataclass(frozen=True, kw_only=True)
class Upload:
    """One `files[n]` part of a request; `content_type` is the sender's claim."""

    filename: str
    data: bytes = field(repr=False)
    content_type: str = UNKNOWN_TYPE


@dataclass(frozen=True, kw_only=True)
class Body:
    """A request's JSON and its files by their n."""

    json: Any
    files: Mapping[int, Upload]


def check_upload(upload: Upload | None, types: Sequence[str] | None, most_bytes: int) -> Upload:
    """Return the file if Discord's client sends it; raises ValueError, which says why it does not."""
    if upload is None:
        raise ValueError("must be a file.")
    if not takes(types, upload.filename):
        raise ValueError(f"{upload.filename} is not of a type that is taken: {', '.join(types or ())}.")
    if len(upload.data) > most_bytes:
        most = said_size(most_bytes)
        raise ValueError(f"{upload.filename} has {said_size(len(upload.data))}, a file may have {most}.")
    return upload


def attachment_of(upload: Upload, *, new_id: int, place_id: int) -> Attachment:
    """Return what Discord makes of a file in an option or a form; `place_id` is in its address."""
    filename = safe_filename(upload.filename)
    width, height = picture_size(upload.data)
    return Attachment(
        id=new_id,
        place_id=place_id,
        filename=filename,
        content_type=upload.content_type,
        data=upload.data,
        width=width,
        height=height,
        title=upload.filename if upload.filename != filename else None,
        ephemeral=True,
    )


async def read_multipart(
    request: web.Request, parse: Callable[[str], Any], on_unknown: Callable[[str], None] = lambda _name: None
) -> Body:
    """Return the parsed `payload_json` and the `files[n]`; pass other parts' names to `on_unknown`."""
    payload: Any = {}
    files: dict[int, Upload] = {}
    async for part in await request.multipart():
        if not isinstance(part, BodyPartReader):
            continue
        name, data = part.name or "", bytes(await part.read())
        found = FILE_FIELD.fullmatch(name)
        if name == "payload_json":
            payload = parse(data.decode(errors="replace"))
        elif found:
            content_type = media_type(part.headers.get(hdrs.CONTENT_TYPE, ""))
            filename = part.filename or "unknown"
            files[int(found[1])] = Upload(filename=filename, data=data, content_type=content_type)
        else:
            on_unknown(name)
    return Body(json=payload, files=files)


def media_type(claim: str) -> str:
    """Return the "type/subtype" of a Content-Type header, by default application/octet-stream."""
    kind = claim.partition(";")[0].strip().lower()
    return kind if MEDIA_TYPE.fullmatch(kind) else UNKNOWN_TYPE


def safe_filename(name: str) -> str:
    """Return a file's name as Discord stores it: Latin letters, digits, dots, dashes, underscores."""
    return re.sub(r"[^A-Za-z0-9._-]", "", name.replace(" ", "_")).strip(".") or "unknown"


def picture_size(data: bytes) -> tuple[int | None, int | None]:
    """Return a picture's width and height from its header, or (None, None) for any other file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # only the header is read
            with Image.open(BytesIO(data)) as picture:
                return picture.size
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError):
        return None, None


def said_size(size: int) -> str:
    """Return a number of bytes as text: "812 bytes", "10 MiB", "11.5 MiB"."""
    return f"{size} bytes" if size < 1 << 20 else f"{size / (1 << 20):.4g} MiB"
