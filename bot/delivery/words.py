"""People's words as others see them: on one line, meaning nothing to Discord, hiding and covering nothing."""

from __future__ import annotations

import re
import unicodedata
from itertools import groupby

MARKS_IN_A_ROW = 4  # as many as one letter of any script in use carries
INVISIBLE_IN_A_ROW = 2  # a joined emoji has a variation selector and a joiner

_TURNS = re.compile("[\u202a-\u202e\u2066-\u2069]")  # would turn round what stands after the words
_BLANKS = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"  # letters and marks that nobody can see
_LINK = re.compile(r"(?i)(?<=[a-z0-9+.]):(?=//)")
_MARKUP = re.compile(r"[\\*_~`|<\[\]]")
_FIRST = re.compile(r"^(?:[>#+-]|\d{1,9}(?=[.)](?:\s|$)))")
_EVERYBODY = re.compile(r"@(?=everyone|here)")


def tidy(text: str) -> str:
    """`text` on one line, without what turns letters round, stacks them up or hides between them."""
    line = re.sub(r"\s+", " ", _TURNS.sub("", text)).strip()
    return "".join(_bounded(kind, "".join(run)) for kind, run in groupby(line, _kind))


def shown(text: str, limit: int) -> str:
    """A person's words on one line, at most `limit` characters of them, meaning nothing to Discord.

    Escaping doubles them at most.
    """
    line = tidy(text)
    if len(line) > limit:
        line = line[: limit - 1].rstrip() + "…"
    escaped = _LINK.sub(r"\\:", _MARKUP.sub(r"\\\g<0>", line))
    # Where a line begins, a mark makes a list, a quotation or a heading of it.
    escaped = _FIRST.sub(lambda found: found[0] + "\\" if found[0].isdigit() else "\\" + found[0], escaped)
    return _EVERYBODY.sub("@\u200b", escaped)


def _kind(character: str) -> str:
    """Whether a character is a mark on the one before, takes no room, or is seen."""
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
