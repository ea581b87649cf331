"""What people see of a text: HTML entities as characters, and characters in the order of bidi overrides."""

from __future__ import annotations

import html
import re

from bot.moderation.scripts import is_arabic

_ENTITY = re.compile(r"&#?\w{1,64};?")
_MOST_ROUNDS = 3  # &amp;amp;#111; is the letter o for software that decodes an answer more than once
_LEFTWARDS = "\u202e"
_OVERRIDES = frozenset(("\u202d", _LEFTWARDS))
_EMBEDDINGS = _OVERRIDES | {"\u202a", "\u202b"}
_ISOLATES = frozenset("\u2066\u2067\u2068")
_OPENING = _EMBEDDINGS | _ISOLATES
_CLOSED_BY = {"\u202c": _EMBEDDINGS, "\u2069": _ISOLATES}
_DEEPEST = 125  # levels, as in the Unicode Bidirectional Algorithm; further controls change nothing
_HAS_OVERRIDE = re.compile(f"[{''.join(_OVERRIDES)}]")

Opened = list[tuple[str, list[str]]]
"""The controls that are open, each with the parts of the text in it; the first is the line."""


def with_displayed(text: str) -> str:
    """Return a text, and after it, on lines of their own, what people see in place of some of its words.

    The time is linear in the length of the text, and the result is at most four times as long.
    """
    seen = _without_entities(text) if "&" in text else text
    lines = [text] if seen == text else [text, seen]
    if not seen.isascii() and _HAS_OVERRIDE.search(seen):
        shown = [_in_order(line) for line in seen.split("\n") if _HAS_OVERRIDE.search(line)]
        lines += shown
        # People read Arabic letters from the right; an override from left to right turns them round.
        lines += [line[::-1] for line in shown if any(map(is_arabic, line))]
    return "\n".join(lines)


def _without_entities(text: str) -> str:
    for _ in range(_MOST_ROUNDS):
        before, text = text, _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
        if text == before:
            break
    return text


def _in_order(line: str) -> str:
    """Return the characters of a line from left to right, for letters of the Latin script.

    An override from right to left turns round what it holds; an embedding or an isolate within it is read
    from left to right again. https://www.unicode.org/reports/tr9/
    """
    opened: Opened = [("", [])]
    for character in line:
        if character in _OPENING:
            if len(opened) < _DEEPEST:
                opened.append((character, []))
        elif character in _CLOSED_BY:
            kind = _CLOSED_BY[character]
            _close(
                opened, max((n for n, (control, _) in enumerate(opened) if control in kind), default=_DEEPEST)
            )
        else:
            opened[-1][1].append(character)
    _close(opened, 1)
    return "".join(opened[0][1])


def _close(opened: Opened, depth: int) -> None:
    """Close the controls from this depth on."""
    while len(opened) > depth:
        control, parts = opened.pop()
        opened[-1][1].append("".join(reversed(parts) if control == _LEFTWARDS else parts))
