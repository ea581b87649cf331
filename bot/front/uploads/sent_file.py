"""A file that a person sent, as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class SentFile:
    """A file at an address that Discord gave, and what it is called in the sentences about it."""

    address: str
    what: str
