"""The contents of any message: a result of this bot, texts, pictures and files; no Discord is called.

They come from Discord's payload of the message: its text, embeds, components and attachments, and those of
the messages that it forwards.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

import discord

from bot.delivery.content import ENLARGE, FILES, MORE, PUBLISH, SINGLE, VARY
from bot.domain.errors import UserMistake
from bot.generation_data.fields import text_of_fields

RESULT_IDS = ("again", "cancel", "delete", "remix", ENLARGE, FILES, MORE, PUBLISH, SINGLE, VARY)
"""The first words of the ids of buttons that a result has."""

_RESULT = re.compile(rf"(?:{'|'.join(RESULT_IDS)}):(?P<job_id>[0-9a-z]+)(?::[0-9])?")
_SHEET = re.compile(r"group:[0-9a-f]{8}:[rs][0-9.]+")  # see `mark_of` in `sessions/pages.py`
_LANGUAGE = re.compile(r"[a-z0-9]{1,10}\n")
FENCE = "```"
OF_MESSAGE = {"picture_gone": "message_file_gone", "picture_unreachable": "message_file_unreachable"}

Part = discord.Message | discord.MessageSnapshot


class Kind(Enum):
    """What a file is, by its type or its name."""

    PICTURE = auto()
    TEXT = auto()


KINDS = {
    "image/png": Kind.PICTURE,
    "image/jpeg": Kind.PICTURE,
    "image/webp": Kind.PICTURE,
    "image/gif": Kind.PICTURE,
    "application/json": Kind.TEXT,
    "text/plain": Kind.TEXT,
}
SUFFIXES = {
    ".png": Kind.PICTURE,
    ".jpg": Kind.PICTURE,
    ".jpeg": Kind.PICTURE,
    ".webp": Kind.PICTURE,
    ".gif": Kind.PICTURE,
    ".json": Kind.TEXT,
    ".txt": Kind.TEXT,
}


@dataclass(frozen=True, kw_only=True)
class MessageFile:
    """A file of a message; `addresses` are those that Discord gave for it, the best first.

    `size` is in bytes, None where Discord does not say it.
    """

    name: str
    kind: Kind
    addresses: tuple[str, ...]
    size: int | None = None


@contextmanager
def of_message(what: str = "") -> Iterator[None]:
    """Replace errors about a sent file by errors about a message's file, which cannot be sent again.

    With `what` only errors about the file of this name are replaced.
    """
    try:
        yield
    except UserMistake as error:
        if error.message_id not in OF_MESSAGE or what not in ("", error.details["what"]):
            raise
        raise UserMistake(OF_MESSAGE[error.message_id], **error.details) from error


def result_of(message: discord.Message, bot_id: int) -> str | None:
    """Return the id of the job whose result or progress the message shows; None for any other message."""
    return next((found["job_id"] for found in _ids(message, bot_id, _RESULT)), None)


def check_no_sheet(message: discord.Message, bot_id: int) -> None:
    """Raise UserMistake `session_sheet` for a sheet, a ballot or the results of a group session."""
    if any(_ids(message, bot_id, _SHEET)):
        raise UserMistake("session_sheet")


def _ids(message: discord.Message, bot_id: int, wanted: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """Yield the wanted ids of buttons in a message of this bot."""
    if message.author.id == bot_id:
        for component in _walk(message.components):
            if found := wanted.fullmatch(getattr(component, "custom_id", None) or ""):
                yield found


def texts_of(message: discord.Message) -> Iterator[str]:
    """Yield each text that may be generation data: code blocks before the text around them."""
    for part in _parts(message):
        yield from _blocks_first(part.content)
        for embed in part.embeds:
            yield from _blocks_first(embed.description or "")
            fields = [(field.name or "", field.value or "") for field in embed.fields]
            yield text_of_fields(embed.description or "", fields)
            for _, value in fields:
                yield from _blocks_first(value)
        for component in _walk(part.components):
            if isinstance(component, discord.TextDisplay):
                yield from _blocks_first(component.content)


def files_of(message: discord.Message) -> list[MessageFile]:
    """Return the pictures and texts of a message in order, each once."""
    found: dict[str, MessageFile] = {}
    for part in _parts(message):
        for file in _files(part):
            found.setdefault(urlsplit(file.addresses[0]).path, file)
    return list(found.values())


def _parts(message: discord.Message) -> list[Part]:
    """Return the message and those that it forwards."""
    return [message, *message.message_snapshots]


def _files(part: Part) -> Iterator[MessageFile]:
    for attachment in part.attachments:
        yield from _file(
            (attachment.url, attachment.proxy_url),
            name=attachment.title or attachment.filename,
            content_type=attachment.content_type,
            size=attachment.size,
        )
    for embed in part.embeds:
        for shown in (embed.image, embed.thumbnail):
            yield from _file((shown.url, shown.proxy_url), content_type="image/png")
    for component in _walk(part.components):
        for medium in _media(component):
            yield from _file((medium.url, medium.proxy_url), content_type=medium.content_type)


def _file(
    addresses: Iterable[str | None],
    *,
    name: str | None = None,
    content_type: str | None = None,
    size: int | None = None,
) -> Iterator[MessageFile]:
    """Yield the file at the addresses, where there is one of a known kind."""
    given = tuple(filter(None, addresses))
    if not given:
        return
    name = name or unquote(PurePosixPath(urlsplit(given[0]).path).name)
    kind = KINDS.get((content_type or "").partition(";")[0].strip().lower())
    kind = kind or SUFFIXES.get(PurePosixPath(name).suffix.lower())
    if kind is not None:
        yield MessageFile(name=name, kind=kind, addresses=given, size=size)


def _media(component: Any) -> Iterator[discord.UnfurledMediaItem]:
    if isinstance(component, discord.MediaGalleryComponent):
        yield from (item.media for item in component.items)
    elif isinstance(component, discord.ThumbnailComponent | discord.FileComponent):
        yield component.media


def _blocks_first(text: str) -> Iterator[str]:
    """Yield the code blocks of a text, then all of it."""
    for block in text.split(FENCE)[1::2]:
        yield _LANGUAGE.sub("", block, count=1) if _LANGUAGE.match(block) else block
    if text:
        yield text


def _walk(components: Iterable[Any]) -> Iterator[Any]:
    """Yield components and those within them, in reading order."""
    for component in components:
        yield component
        yield from _walk(getattr(component, "children", ()))
        accessory = getattr(component, "accessory", None)
        if accessory is not None:
            yield accessory
