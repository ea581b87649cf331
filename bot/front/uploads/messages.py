"""The contents of any message: a result of this bot, texts, pictures and files; no Discord is called.

They come from Discord's payload of the message: its text, embeds, components and attachments, and those of
the messages that it forwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

import discord

from bot.delivery.content import ENLARGE, FILES, MORE, PUBLISH, SINGLE, VARY
from bot.domain.errors import UserMistake
from bot.domain.jobs import Job, Showing
from bot.front.recipes.options import MAX_CHOICE, MAX_CHOICES, clean
from bot.generation_data import GenerationData, NoGenerationData, read_picture, read_text
from bot.generation_data.data import MAX_BYTES
from bot.generation_data.fields import text_of_fields
from bot.texts.catalogue import Texts
from bot.texts.markup import tidy
from sdjax_engine.images import grid_shape
from sdjax_engine.request import SAMPLER_NAMES, Offer, Sampler

RESULT_IDS = ("again", "cancel", "delete", "remix", ENLARGE, FILES, MORE, PUBLISH, SINGLE, VARY)
"""The first words of the ids of buttons that a result has."""

_RESULT = re.compile(rf"(?:{'|'.join(RESULT_IDS)}):(?P<job_id>[0-9a-z]+)(?::[0-9])?")
_SHEET = re.compile(r"group:[0-9a-f]{8}:[rs][0-9.]+")  # see `mark_of` in `sessions/pages.py`
_LANGUAGE = re.compile(r"[a-z0-9]{1,10}\n")
FENCE = "```"
OF_MESSAGE = {"picture_gone": "message_file_gone", "picture_unreachable": "message_file_unreachable"}

Part = discord.Message | discord.MessageSnapshot
FILE_TYPES = "file_types"  # Discord's field; discord.py 2.7 lacks it
PICTURES = ("image",)  # the types of files that are pictures, as Discord calls them
TOLD = frozenset({"generation_data_graph", "generation_data_version", "generation_data_long"})
"""The mistakes in a message's text that are reported: other mistakes occur in any text."""


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


@dataclass(frozen=True, kw_only=True)
class SentFile:
    """A file at an address that Discord gave, and what it is called in the sentences about it.

    `size` is in bytes, as Discord says; None where it is unknown.
    """

    address: str
    what: str
    size: int | None = None


@dataclass(frozen=True, kw_only=True)
class MessagePicture:
    """A picture: at an address that Discord gave, or the picture at `index` of a job of this bot.

    `name` is plain text for a menu. `size` is in bytes, None where it is unknown.
    """

    name: str
    address: str = ""
    size: int | None = None
    index: int = 0

    @property
    def what(self) -> str:
        """The name of the picture in sentences."""
        return f"“{self.name}”"

    @property
    def sent(self) -> SentFile:
        """The file at the picture's address."""
        return SentFile(address=self.address, what=self.what, size=self.size)


@dataclass(frozen=True, kw_only=True)
class MessagePictures:
    """The pictures of one message, and whether results from them are private.

    `job_id` is the job of this bot that the message shows; empty for any other message, whose pictures have
    addresses.
    """

    pictures: tuple[MessagePicture, ...]
    private: bool
    job_id: str = ""
    message_id: int


def pictures_of_job(job: Job, texts: Texts) -> tuple[MessagePicture, ...]:
    """Return the finished pictures of a job, without those that are held for review or withheld."""
    found = [image for image in job.images if image.artifact and image.showing is not Showing.WITHHOLD]
    in_one_grid = len(found) > 1 and all(image.showing is Showing.SHOW for image in found)
    _, columns = grid_shape(len(found)) if in_one_grid else (0, 0)
    return tuple(
        MessagePicture(name=_name(image.index + 1, place, columns, texts), index=image.index)
        for place, image in enumerate(found)
    )


def _name(number: int, place: int, columns: int, texts: Texts) -> str:
    """Return the name of a picture, with its cell of a grid: a menu shows no pictures."""
    if not columns:
        return texts.gettext("Picture {number}", number=number)
    row, column = divmod(place, columns)
    return texts.gettext(
        "Picture {number} (row {row}, column {column})", number=number, row=row + 1, column=column + 1
    )


def pictures_among(
    files: Sequence[MessageFile], reachable: Callable[[Iterable[str]], str | None], texts: Texts
) -> tuple[MessagePicture, ...]:
    """Return the pictures among files that are `reachable`, as many as a menu can have."""
    return tuple(_among(files, reachable, texts))[:MAX_CHOICES]


def _among(
    files: Sequence[MessageFile], reachable: Callable[[Iterable[str]], str | None], texts: Texts
) -> Iterator[MessagePicture]:
    number = 0
    for file in files:
        address = reachable(file.addresses) if file.kind is Kind.PICTURE else None
        if address is not None:
            number += 1
            name = file_name(file.name) or texts.gettext("Picture {number}", number=number)
            yield MessagePicture(name=name, address=address, size=file.size)


def sent_file(attachment: discord.Attachment) -> SentFile:
    """Return the file of an attachment, which sentences call by its name."""
    return SentFile(address=attachment.url, what=f"“{file_name(attachment.filename)}”")


def file_name(text: str) -> str:
    """Return the name of a file as plain text on one line; empty where nothing of it is visible."""
    name = tidy(clean(text))
    return name if len(name) <= MAX_CHOICE else name[: MAX_CHOICE - 1] + "…"


@dataclass(frozen=True, kw_only=True)
class MessageRecipe:
    """The generation data, the name of its file (empty for a text), and whether the result is private."""

    data: GenerationData
    file: str = ""
    private: bool = False


def read_texts(texts: Iterable[str]) -> GenerationData | None:
    """Return the generation data of the first text that has any; None without one.

    Raises NoGenerationData where a text is generation data that cannot be used.
    """
    errors = []
    for text in texts:
        try:
            return read_text(text)
        except NoGenerationData as error:
            errors.append(error)
    told = [error for error in errors if error.message_id in TOLD]
    if told:
        raise told[0]
    return None


def read_file(kind: Kind, file: bytes) -> GenerationData:
    """Return the generation data of a picture or of a text file; raises NoGenerationData."""
    if kind is Kind.PICTURE:
        return read_picture(file)
    if len(file) > MAX_BYTES:
        raise NoGenerationData("generation_data_long", limit=MAX_BYTES // 1024)
    return read_text(file.decode("utf-8-sig", "replace"))


def telling(errors: Sequence[Exception], *, otherwise: UserMistake) -> Exception:
    """Return the first error that is not about a file without data; `otherwise` if there is none."""
    empty = ("generation_data_none", "generation_data_no_file")
    told = [error for error in errors if getattr(error, "message_id", "") not in empty]
    return told[0] if told else otherwise


def recipe_settings(options: Mapping[str, Any], offers: Sequence[Offer]) -> dict[str, Any]:
    """Return the settings of fitted options, and the model's defaults for what they leave open.

    A missing seed stays missing.
    """
    offer = next((each for each in offers if each.model == options.get("model")), offers[0])
    width, height = offer.sizes[0]
    values = {
        "size": f"{width}x{height}",
        "variants": 1,
        "steps": offer.num_inference_steps,
        "guidance": offer.guidance_scale,
        "sampler": offer.sampler.value,
        "model": offer.model,
        **options,
    }
    return {**values, "sampler": SAMPLER_NAMES[Sampler(values["sampler"])]}
