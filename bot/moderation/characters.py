"""A text with one character for all the characters that people use in its place."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from bot.moderation import arabic, hangul
from bot.moderation.tables import look_alikes, simplified

_FILLERS = "\u115f\u1160\u3164\uffa0\u17b4\u17b5\u2800"
_ASTRAL_MARKS = "\U0001d165-\U0001d182\U0001e000-\U0001e02a\U000e0000-\U000e0fff"
_LATIN_LETTERS = {
    "\U0001f150": 26,  # white on black circles
    "\U0001f170": 26,  # white on black squares
    "\U0001f1e6": 26,  # flags
}
_PAIRS = {0x1F18E: "ab", 0x1F191: "cl", 0x1F192: "cool", 0x1F196: "ng", 0x1F197: "ok", 0x1F19A: "vs"}
_CAPITAL_I = re.compile(r"(?<![A-Za-z])[A-Za-z]*(?:[a-z]I|I[a-z])[A-Za-z]*")


@cache
def _hidden() -> re.Pattern[str]:
    """Match what is not seen, or sits on a letter: marks, zero-width characters, fillers."""
    marks = [
        character
        for character in map(chr, range(0x300, 0x10000))
        if unicodedata.category(character) in ("Mn", "Me", "Cf")
    ]
    return re.compile(f"[\u00ad{''.join(map(re.escape, marks))}{_FILLERS}ـ{_ASTRAL_MARKS}]+")


@cache
def _letters() -> dict[int, str]:
    """Return the table of letters for str.translate, to be used after NFKD."""
    made = {ord(other): letter for other, letter in look_alikes().items() if other.isalpha()}
    for start, count in _LATIN_LETTERS.items():
        made |= {ord(start) + place: chr(ord("a") + place) for place in range(count)}
    made |= {ord(other): simple for other, simple in simplified().items()}
    return made | _PAIRS | arabic.LETTERS


def skeleton(text: str) -> str:
    """Return a text without what is not seen, and with one letter for all that look like it.

    Case, digits, signs and spaces stay. Words that can be read in a second way are there again, in lines at
    the end.
    """
    if text.isascii():
        return _with_capital_i(text)
    seen = _hidden().sub("", text)
    made = _decompose(seen)
    if not hangul.has_jamo(made):
        return _with_capital_i(arabic.normalise(made))
    if hangul.has_loose_jamo(seen):
        typed = " ".join(hangul.typed_apart(seen))
        lone = hangul.compose_without_lone(made)
        made = _with_second(hangul.compose(made), lone)
        made = f"{made}\n{hangul.compose(_decompose(typed))}" if typed else made
    else:
        made = unicodedata.normalize("NFC", made)
    if hangul.has_hangul(made):
        made = _with_second(made, hangul.without_stretched_vowels(made))
    return _with_capital_i(arabic.normalise(made))


def _decompose(seen: str) -> str:
    decomposed = unicodedata.normalize("NFKD", seen)
    shown = _hidden().sub("", decomposed) if decomposed != seen else seen
    return shown.translate(_letters())


def _with_second(text: str, second: str) -> str:
    """Return a text, and after it the chunks that differ in its second reading."""
    if second == text:
        return text
    pairs = zip(text.split(), second.split(), strict=False)
    return "\n".join((text, " ".join(other for one, other in pairs if one != other)))


def _with_capital_i(text: str) -> str:
    """Return a text, and after it the words whose capital I may be a small L: bIood."""
    words = _CAPITAL_I.findall(text) if "I" in text else []
    return "\n".join((text, " ".join(words).replace("I", "l"))) if words else text
