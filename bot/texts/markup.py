"""People's words, made safe within a sentence: on one line, without markup, mentions or hidden characters."""

from __future__ import annotations

import re
import unicodedata
from itertools import groupby

import regex

MARKS_IN_A_ROW = 4  # no letter of a script in use today has more combining marks
INVISIBLE_IN_A_ROW = 2  # a joined emoji has a variation selector and a joiner

_DIRECTIONS = re.compile("[\u202a-\u202e\u2066-\u2069]")  # change the direction of the text after them
_BLANKS = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"  # letters and marks that are not visible
_LINK = re.compile(r"(?i)(?<=[a-z0-9+.]):(?=//)")
_MARKUP = re.compile(r"[\\*_~`|<\[\]]")
_FIRST = re.compile(r"^(?:[>#+-]|\d{1,9}(?=[.)](?:\s|$)))")
_EVERYBODY = re.compile(r"@(?=everyone|here)")
_LETTER = regex.compile(r"\X")  # with its marks; an emoji with all that is joined to it


def tidy(text: str) -> str:
    """Return `text` on one line, without direction controls and long runs of marks or invisible letters."""
    line = re.sub(r"\s+", " ", _DIRECTIONS.sub("", text)).strip()
    return "".join(_bounded(kind, "".join(run)) for kind, run in groupby(line, _kind))


def shown(text: str, limit: int) -> str:
    """Return a person's words on one line, cut to `limit` characters, and escaped for Discord.

    They are cut after a word, where there is one in the second half. The result has at most twice as many
    characters.
    """
    line = tidy(text)
    if len(line) > limit:
        line = _beginning(line, limit - 1) + "…"
    escaped = _LINK.sub(r"\\:", _MARKUP.sub(r"\\\g<0>", line))
    # At the start of a line such a character makes a list, a quotation or a heading.
    escaped = _FIRST.sub(lambda found: found[0] + "\\" if found[0].isdigit() else "\\" + found[0], escaped)
    return _EVERYBODY.sub("@\u200b", escaped)


def is_cut(text: str, limit: int) -> bool:
    """Return whether `shown` leaves something of `text` out."""
    return len(tidy(text)) > limit


def _beginning(line: str, limit: int) -> str:
    """Return the first words of a longer line, or the first letters of a long word."""
    end = 0
    for letter in _LETTER.finditer(line):
        if letter.end() > limit:
            break
        end = letter.end()
    end = end or limit
    word_end = line.rfind(" ", 0, end + 1)
    return line[: word_end if word_end >= limit // 2 else end].rstrip(" ,;")


def _kind(character: str) -> str:
    """Return "mark", "invisible", "unwanted" or "seen" for a character."""
    category = unicodedata.category(character)
    if character in _BLANKS or category == "Cf" or 0xFE00 <= ord(character) <= 0xFE0F:
        return "invisible"
    if category in ("Cc", "Cs") or 0xE0100 <= ord(character) <= 0xE01EF:
        return "unwanted"
    return "mark" if category in ("Mn", "Me") else "seen"


def _bounded(kind: str, run: str) -> str:
    if kind == "unwanted":
        return ""
    if kind == "mark":
        return run[:MARKS_IN_A_ROW]
    return run[:INVISIBLE_IN_A_ROW] if kind == "invisible" else run
