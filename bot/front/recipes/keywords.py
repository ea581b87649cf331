"""Suggestions for a prompt from a file of keywords, such as the tags of a picture board; no Discord here.

The file is CSV, one keyword a line: name, category, count, aliases. Only the name is needed. The aliases are
one field with commas between. A heading is skipped.
"""

from __future__ import annotations

import csv
import heapq
import io
import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable

from bot.config.mistakes import quoted
from bot.config.text_files import read_text_file
from bot.domain.errors import ConfigurationError
from bot.front.recipes.options import MAX_CHOICE, MAX_CHOICES, clean

EMOTICON = 3  # characters; a name up to this length, such as ^_^, keeps its underscores
HEADING = ("name", "tag")
LAST = "\U0010ffff"  # sorts after every letter

_SEPARATOR = re.compile(r"\\.|[,\n{(\[]", re.DOTALL)
_GRAMMAR = re.compile(r"[()\[\]{},]|_(?=_)|(?<=_)_")
_BACKSLASH = re.compile(r"\\(.)", re.DOTALL)


class Keywords:
    """Keywords by the beginnings of their names and aliases, the most frequent first.

    Rows are name, category, count, aliases; a shorter row lacks the last of these.
    """

    def __init__(self, rows: Iterable[list[str]]) -> None:
        read = [(name, row) for row in rows if row and (name := _name(row[0]))]
        if read and read[0][0].casefold() in HEADING:
            del read[0]
        read.sort(key=lambda found: _count(found[1]), reverse=True)
        self._names = [name for name, _ in read]
        found = sorted((key, rank) for rank, (name, row) in enumerate(read) for key in _keys(name, row))
        self._keys = [key for key, _ in found]
        self._ranks = array("l", (rank for _, rank in found))  # the rank of each key's name

    def __len__(self) -> int:
        return len(self._names)

    def beginning_with(self, typed: str, *, most: int) -> list[str]:
        """Return the most frequent names of which a name or an alias begins with `typed`."""
        key = _key(typed)
        first, end = bisect_left(self._keys, key), bisect_left(self._keys, key + LAST)
        best = heapq.nsmallest(most, set(self._ranks[first:end]))
        return [self._names[rank] for rank in best]

    def complete(self, prompt: str) -> list[str]:
        """Return `prompt` with completions of its last keyword, each of at most MAX_CHOICE characters."""
        start = _last_keyword(prompt)
        before, typed = prompt[:start], prompt[start:]
        if not typed:
            return []
        names = self.beginning_with(_BACKSLASH.sub(r"\1", typed), most=2 * MAX_CHOICES)
        completed = (before + as_prompt(name) for name in names)
        return [text for text in completed if len(text) <= MAX_CHOICE][:MAX_CHOICES]


def as_prompt(name: str) -> str:
    """Return a keyword as written in a prompt: with spaces for underscores, brackets and commas escaped."""
    words = name if len(name) <= EMOTICON else name.replace("_", " ")
    return _GRAMMAR.sub(r"\\\g<0>", words)


def read_keywords(file: str) -> Keywords:
    """Return the keywords of a CSV file; raises ConfigurationError."""
    try:
        keywords = Keywords(csv.reader(io.StringIO(read_text_file(file), newline="")))
    except OSError as error:
        raise ConfigurationError(
            f"prompts.keywords_file: {quoted(file)} cannot be read: {error.strerror}."
        ) from None
    except (ValueError, csv.Error) as error:
        raise ConfigurationError(f"prompts.keywords_file: {quoted(file)} is no CSV file: {error}.") from None
    if not len(keywords):
        raise ConfigurationError(f"prompts.keywords_file: {quoted(file)} has no keywords.")
    return keywords


def keywords_of(file: str) -> Keywords | None:
    """Return the keywords of the configured file; None for an empty name. Raises like `read_keywords`."""
    return read_keywords(file) if file else None


def _last_keyword(prompt: str) -> int:
    """Return where the last keyword of a prompt begins: after its last separator, and after spaces."""
    ends = [found.end() for found in _SEPARATOR.finditer(prompt) if not found[0].startswith("\\")]
    start = ends[-1] if ends else 0
    return len(prompt) - len(prompt[start:].lstrip())


def _key(text: str) -> str:
    """Return a text as keys are compared: without letter case, with underscores for spaces."""
    return "_".join(text.casefold().split())


def _name(text: str) -> str:
    text = text.strip()
    return text if text.isprintable() else clean(text)


def _keys(name: str, row: list[str]) -> set[str]:
    """Return the keys of a row: of its name, and of its aliases."""
    aliases = row[3].split(",") if len(row) > 3 else []
    return {key for key in map(_key, (name, *aliases)) if key}


def _count(row: list[str]) -> int:
    """Return how often a keyword is used; 0 where that is not a number."""
    text = row[2].strip() if len(row) > 2 else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0
