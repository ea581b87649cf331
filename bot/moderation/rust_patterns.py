"""Translates the patterns of AutoMod, of Rust's regex crate, for RE2; both search in linear time.

The time for each character depends on the pattern, and can be long: `cost_of` measures it.

In RE2, \\w, \\d and \\b know only ASCII; in Rust, all scripts. \\w and \\d are written out. A pattern with
\\b and characters beyond ASCII, or with syntax that RE2 lacks, is refused.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol, cast

import re2

from bot.moderation.readings import LONGEST_SENT

MAX_MEMORY = (
    3 << 18
)  # bytes of one compiled pattern; compiling it keeps the interpreter lock for 25 ms at most
KEYWORDS_MEMORY = 32 << 20  # of a list of 1,000 keywords
_KINDS = {"w": r"\pL\pM\p{Nd}\p{Nl}\p{Pc}", "d": r"\p{Nd}", "s": r"\s\pZ\x{85}\x0b"}
_PIECE = re.compile(r"\\[pP]\{\^?\w+\}|\\.|\[:\^?[a-z]+:\]|.", re.DOTALL)
_NOT_ALIKE = re.compile(r"\\b\{|\\[<>CQEhHRXK]|\(\?[a-zA-Z]*-?[a-zA-Z]*[xRu]")
_BOUNDARY = re.compile(r"(?<!\\)(?:\\\\)*\\[bB]")
_WRITTEN_AS_NUMBER = re.compile(r"\\[xuU](?:\{([0-9a-fA-F]{1,6})\}|([0-9a-fA-F]{2,4}))")
_MOST_LETTERS = 6
_SAMPLE = LONGEST_SENT // 4  # characters that are measured; a whole text takes up to eight times as long
_SET_SIGNS = ("&", "~", "-")


class Pattern(Protocol):
    """A compiled pattern; `programsize` is the number of its instructions."""

    programsize: int

    def search(self, text: str) -> Any:
        """Return the first match, whose item 0 is its text; None without one."""


class NotAlike(ValueError):
    """The pattern may have another meaning in RE2, or is not valid there."""


class TooLarge(NotAlike):
    """The pattern takes too much memory."""


def compiled(pattern: str) -> Pattern:
    """Return the pattern for RE2, which ignores letter case; raises NotAlike."""
    return compiled_for_re2(f"(?i){translated(pattern)}", memory=MAX_MEMORY)


def compiled_for_re2(pattern: str, *, memory: int) -> Pattern:
    """Return a pattern of RE2's, within so many bytes; raises NotAlike."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = memory
    try:
        return cast("Pattern", re2.compile(pattern, options))
    except re2.error as error:
        kind = TooLarge if "too large" in str(error) else NotAlike
        raise kind(str(error)) from None


def translated(pattern: str) -> str:
    """Return the pattern in RE2's syntax; raises NotAlike."""
    if _NOT_ALIKE.search(pattern) or (not pattern.isascii() and _BOUNDARY.search(pattern)):
        raise NotAlike(pattern)
    return "".join(_translated(pattern))


def _translated(pattern: str) -> Iterator[str]:
    inside, before = False, ""
    for piece in _PIECE.findall(pattern):
        kind = piece[1:] if piece[:1] == "\\" else ""
        if inside and ((piece in _SET_SIGNS and piece == before) or piece == "["):
            raise NotAlike(pattern)
        if kind.lower() in _KINDS:
            yield _of_kind(kind, inside=inside)
        elif piece.startswith("[:") and not inside:
            raise NotAlike(pattern)
        else:
            yield piece
        if not inside and piece == "[":
            inside = True
        elif inside and piece == "]" and before not in ("[", "[^"):
            inside = False
        before = "[^" if piece == "^" and before == "[" else piece


def _of_kind(kind: str, *, inside: bool) -> str:
    """Return the class of \\w, \\d or \\s, or of its negation, which raises NotAlike inside a class."""
    characters = _KINDS[kind.lower()]
    if inside:
        if kind.isupper():
            raise NotAlike(kind)
        return characters
    return f"[{'^' if kind.isupper() else ''}{characters}]"


def cost_of(
    pattern: str, *, limit: float = float("inf"), clock: Callable[[], float] = time.thread_time
) -> float:
    """Return about how many seconds a search takes at most in a text as long as a person can send.

    Measured in shorter texts that suit the pattern badly, up to the first one of more than `limit`. Raises
    NotAlike.
    """
    found, most = compiled(pattern), 0.0

    def seconds(text: str) -> float:
        began = clock()
        found.search(text)
        return (clock() - began) * LONGEST_SENT / _SAMPLE

    for text in costly_texts(pattern):
        if (first := seconds(text)) > most:  # it builds tables, which takes time once
            most = max(most, min(first, seconds(text)))
        if most > limit:
            break
    return most


def costly_texts(pattern: str) -> Iterator[str]:
    """Yield texts that keep many places of a pattern alive: its letters, each after the others, and mixed."""
    plain = _WRITTEN_AS_NUMBER.sub(_character, pattern)
    letters = [letter for letter in dict.fromkeys(plain) if letter.isalnum()]
    for index, letter in enumerate(letters[:_MOST_LETTERS]):
        yield "".join(letters[:index]) + letter * _SAMPLE
    yield from ("a" * _SAMPLE, "\uac00" * _SAMPLE)
    mixed = random.Random(_SAMPLE)  # noqa: S311 - the same texts for each pattern
    yield "".join(mixed.choices([*letters, "a", "b", "1", " "], k=_SAMPLE))


def _character(written: re.Match[str]) -> str:
    number = int(written[1] or written[2], 16)
    return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else ""
