"""What people see of a text: HTML entities as characters, and characters in the order of bidi overrides."""

from __future__ import annotations

import html
import re

from bot.moderation.letters import is_arabic

_ENTITY = re.compile(r"&#?\w{1,64};?")
_MOST_ROUNDS = 3  # &amp;amp;#111; is the letter o for software that decodes an answer more than once
_LEFTWARDS = "\u202e"
_OVERRIDE = re.compile(f"[\u202d{_LEFTWARDS}]")
_EMBEDDINGS, _END = frozenset(f"\u202a\u202b\u202d{_LEFTWARDS}"), "\u202c"
_ISOLATES, _END_OF_ISOLATE = frozenset("\u2066\u2067\u2068"), "\u2069"
_DEEPEST = 125  # levels, as in the Unicode Bidirectional Algorithm; further controls change nothing

Opened = list[tuple[str, list[str]]]
"""The controls that are open, each with the parts of the text in it; the first is the line."""


def displayed(text: str) -> list[str]:
    """Return a text, and after it what people see in its place where that differs, in linear time.

    There are at most three more texts, none of them longer.
    """
    before, seen = "", text
    for _ in range(_MOST_ROUNDS if "&" in text else 0):
        if seen != before:
            before, seen = seen, _ENTITY.sub(lambda entity: html.unescape(entity[0]), seen)
    lines = [text] if seen == text else [text, seen]
    if not seen.isascii() and _OVERRIDE.search(seen):
        shown = [_in_order(line) for line in seen.split("\n") if _OVERRIDE.search(line)]
        # People read Arabic letters from the right; an override from left to right turns them round.
        turned = [line[::-1] for line in shown if any(map(is_arabic, line))]
        lines += filter(None, ("\n".join(shown), "\n".join(turned)))
    return lines


def _in_order(line: str) -> str:
    """Return the characters of a line from left to right, for letters of the Latin script.

    An override from right to left turns round what it holds; an embedding or an isolate within it is read
    from left to right again. https://www.unicode.org/reports/tr9/
    """
    opened: Opened = [("", [])]
    isolates = 0
    for character in line:
        if character in _EMBEDDINGS or character in _ISOLATES:
            if len(opened) < _DEEPEST:
                opened.append((character, []))
                isolates += character in _ISOLATES
        elif character == _END_OF_ISOLATE:
            while isolates and _close(opened) not in _ISOLATES:
                pass
            isolates = max(0, isolates - 1)
        elif character != _END:
            opened[-1][1].append(character)
        elif opened[-1][0] in _EMBEDDINGS:
            _close(opened)
    while len(opened) > 1:
        _close(opened)
    return "".join(opened[0][1])


def _close(opened: Opened) -> str:
    """Close the last control, and return it."""
    control, parts = opened.pop()
    opened[-1][1].append("".join(reversed(parts) if control == _LEFTWARDS else parts))
    return control
