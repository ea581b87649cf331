"""The pictures of a message that a person may paint from; no Discord is called here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import discord

from bot.domain.jobs import Job, Showing
from bot.front.recipes.options import MAX_CHOICE, MAX_CHOICES, clean
from bot.front.uploads.messages import Kind, MessageFile
from bot.front.uploads.sent_file import SentFile
from bot.texts.catalogue import Texts
from bot.texts.markup import tidy
from sdjax_engine.images import grid_shape


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
