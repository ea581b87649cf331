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
_CAPITAL_I = re.compile(r"[a-z]I|I[a-z]")
_LATIN_WORD = re.compile("[A-Za-z]+")
_ASCII_WORD = str.maketrans({chr(code): " " for code in range(128) if not chr(code).isalpha()})
_NOT_SYLLABLES = re.compile(r"[^\x00-\x7f가-힣]+")


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
    others = ""
    if hangul.has_loose_jamo(seen):
        seen, others = hangul.part_jamo(seen)
    if others or hangul.has_hangul(seen):
        decomposed = _NOT_SYLLABLES.sub(_decompose, seen)
        others = "\n".join((others, hangul.words_with_stretched_vowels(f"{seen}\n{others}")))
    else:
        decomposed = unicodedata.normalize("NFKD", seen)
    if decomposed != seen:
        decomposed = _hidden().sub("", decomposed)
    made = arabic.normalise(decomposed.translate(_letters()))
    return _with_capital_i(f"{made}\n{others}" if others else made)


def _decompose(found: re.Match[str]) -> str:
    return unicodedata.normalize("NFKD", found[0])


def _with_capital_i(text: str) -> str:
    """Return a text, and after it the words whose capital I may be a small L: bIood."""
    if not _CAPITAL_I.search(text):
        return text
    found = text.translate(_ASCII_WORD).split() if text.isascii() else _LATIN_WORD.findall(text)
    words = [word for word in found if "I" in word and not word.isupper()]
    return "\n".join((text, " ".join(words).replace("I", "l")))
