"""Prompts with alternatives and wildcards: read, counted, then written out; no I/O.

    {red, blue} bird          two prompts; groups may be nested, and an alternative may be empty
    __colour__ bird           one entry of the list "colour"
    \\{ \\} \\, \\_               the character itself, as text

Braces without a comma, and braces without a partner, are text. A backslash before any other character stays,
so that `\\(` still reaches the grammar of emphasis.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bot.domain.errors import UserMistake
from sdjax_engine.errors import InvalidRequest
from sdjax_engine.request import MAX_PROMPT_CHARACTERS

MAX_DEPTH = 8
MAX_WILDCARD_NAME = 40
PLACE = "{prompt}"  # in the text of a style or theme: where the person's words go
MAX_WRITTEN = 2 * MAX_PROMPT_CHARACTERS
"""A longer text is refused before it is written out. A prompt loses fewer spaces than that at its ends."""
SIGNS = ("{", "}", "__", "\\")
"""A text without any of these signs is one prompt as it stands."""

_NAME = rf"(?:(?!__)[^\s{{}},\\]){{1,{MAX_WILDCARD_NAME}}}"
_TOKEN = re.compile(
    rf"""
      \\ (?P<escaped> [{{}},_] )
    | (?P<open> \{{ ) | (?P<close> \}} ) | (?P<comma> , )
    | __ (?P<wildcard> {_NAME} ) __
    | \\ . | [^\\{{}},_]+ | .
    """,
    re.VERBOSE | re.DOTALL,
)

Choose = Callable[[str, int], str]
"""Returns the entry for a wildcard, from its name and its number within the text."""


@dataclass(frozen=True, kw_only=True)
class Draw:
    """A wildcard, which becomes one entry of the list `name`; `number` counts those of the text from 0."""

    name: str
    number: int


@dataclass(frozen=True, kw_only=True)
class Group:
    """Alternatives, of which each prompt has one."""

    alternatives: tuple[Phrase, ...]

    @property
    def count(self) -> int:
        """How many texts the group stands for."""
        return sum(phrase.count for phrase in self.alternatives)


@dataclass(frozen=True, kw_only=True)
class Phrase:
    """A sequence of parts, which stands for `count` texts."""

    parts: tuple[str | Draw | Group, ...]
    count: int

    @property
    def wildcards(self) -> Iterator[str]:
        """The names of all wildcards, in order."""
        for part in self.parts:
            if isinstance(part, Draw):
                yield part.name
            elif isinstance(part, Group):
                for phrase in part.alternatives:
                    yield from phrase.wildcards

    def text(self, index: int, choose: Choose) -> str:
        """Return the text at `index`, below `count`; the last group changes fastest.

        Raises InvalidRequest `long_prompt` instead of a text of more than MAX_WRITTEN characters.
        """
        pieces = list(self._backwards(index, choose))
        check_written(sum(map(len, pieces)))
        return "".join(reversed(pieces))

    def _backwards(self, index: int, choose: Choose) -> Iterator[str]:
        for part in reversed(self.parts):
            if isinstance(part, Draw):
                yield choose(part.name, part.number)
            elif isinstance(part, Group):
                index, within = divmod(index, part.count)
                for phrase in part.alternatives:
                    if within < phrase.count:
                        yield from phrase._backwards(within, choose)
                        break
                    within -= phrase.count
            else:
                yield part


def read_phrase(text: str) -> Phrase:
    """Return the phrase of a prompt, in linear time; nothing is written out yet.

    Every text can be read; raises UserMistake `expansion_deep` only for groups nested deeper than MAX_DEPTH.
    """
    tokens = [*_TOKEN.finditer(text)]
    opening, closing = _groups(tokens)
    phrases: list[list[str | Draw | Group]] = [[]]
    alternatives: list[list[Phrase]] = []
    number = 0
    for index, token in enumerate(tokens):
        if index in opening:
            if len(alternatives) == MAX_DEPTH:
                raise UserMistake("expansion_deep", limit=MAX_DEPTH)
            alternatives.append([])
            phrases.append([])
        elif alternatives and (token["comma"] or index in closing):
            alternatives[-1].append(_phrase(phrases.pop(), trimmed=True))
            if token["comma"]:
                phrases.append([])
            else:
                phrases[-1].append(Group(alternatives=tuple(alternatives.pop())))
        elif token["wildcard"]:
            phrases[-1].append(Draw(name=token["wildcard"], number=number))
            number += 1
        else:
            phrases[-1].append(token["escaped"] or token[0])
    return _phrase(phrases.pop())


def _groups(tokens: Sequence[re.Match[str]]) -> tuple[set[int], set[int]]:
    """Return the indices of the opening and of the closing braces that have a partner and a comma between."""
    waiting: list[tuple[int, bool]] = []
    opening, closing = set(), set()
    for index, token in enumerate(tokens):
        if token["open"]:
            waiting.append((index, False))
        elif token["comma"] and waiting:
            waiting[-1] = waiting[-1][0], True
        elif token["close"] and waiting:
            first, divided = waiting.pop()
            if divided:
                opening.add(first)
                closing.add(index)
    return opening, closing


def _phrase(parts: list[str | Draw | Group], *, trimmed: bool = False) -> Phrase:
    """Return the parts as a phrase; `trimmed`, without spaces at its ends."""
    if trimmed and parts and isinstance(parts[0], str):
        parts[0] = parts[0].lstrip()
    if trimmed and parts and isinstance(parts[-1], str):
        parts[-1] = parts[-1].rstrip()
    return Phrase(
        parts=tuple(parts), count=math.prod(part.count for part in parts if isinstance(part, Group))
    )


def check_written(length: int) -> None:
    """Raise InvalidRequest `long_prompt` for a text of more than MAX_WRITTEN characters."""
    if length > MAX_WRITTEN:
        raise InvalidRequest("long_prompt", characters=length, limit=MAX_PROMPT_CHARACTERS)


def in_places(text: str, words: str) -> str:
    """Return `text` with a person's words in each PLACE; raises as `check_written`, before it is written."""
    check_written(len(text) + text.count(PLACE) * (len(words) - len(PLACE)))
    return text.replace(PLACE, words)


def chosen(entries: Sequence[str], *, seed: int, number: int) -> str:
    """Return the entry that a seed chooses for the wildcard of this number: always the same one."""
    digest = hashlib.blake2b(f"{seed}:{number}".encode(), digest_size=8).digest()
    return entries[int.from_bytes(digest) % len(entries)]


def is_wildcard_name(name: str) -> bool:
    """Return whether `__name__` in a prompt is read as a wildcard of this name."""
    return re.fullmatch(_NAME, name) is not None and not name.startswith("_") and not name.endswith("_")
