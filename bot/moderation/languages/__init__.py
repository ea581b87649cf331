"""What the search needs to know of each language: three pure functions a module."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from bot.moderation.languages import arabic, chinese, english, korean
from bot.moderation.letters import is_arabic, is_hangul

__all__ = ["ALPHABETIC", "Language", "arabic", "chinese", "english", "korean", "language_of"]


class Language(Protocol):
    """A module of this package. All texts are skeletons in lower case."""

    def forms(self, word: str, /) -> Collection[str]:
        """Return the spellings of a word of a term: its plural, its endings."""

    def words(self, text: str, /) -> list[str]:
        """Return what a text may be read as in this language, in order; nothing if that is no other reading.

        Words of languages that are written with spaces, versions of the whole text of the others.
        """

    def is_part_of_other(self, word: str, start: int, end: int, /) -> bool:
        """Return whether a form from `start` to `end` of a longer word belongs to another word."""


ALPHABETIC: tuple[Language, ...] = (english, korean, arabic)
"""The languages that are written with spaces between words."""


def language_of(word: str) -> Language:
    """Return the language of a word; that of every other alphabet is handled as English."""
    if is_hangul(word):
        return korean
    return arabic if is_arabic(word) else english
