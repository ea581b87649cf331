"""A file that a person sent, as data, and the types of files that Discord lets a person choose."""

from __future__ import annotations

from dataclasses import dataclass

FILE_TYPES = "file_types"  # Discord's field; discord.py 2.7 lacks it
PICTURES = ("image",)  # the types of files that are pictures, as Discord calls them


@dataclass(frozen=True, kw_only=True)
class SentFile:
    """A file at an address that Discord gave, and what it is called in the sentences about it.

    `size` is in bytes, as Discord says; None where it is unknown.
    """

    address: str
    what: str
    size: int | None = None
