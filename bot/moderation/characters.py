"""A text with one character for all the characters that people use in its place."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from bot.moderation import arabic, hangul
from bot.moderation.scripts import BASIC, is_basic
from bot.moderation.tables import look_alikes, simplified

_FILLERS = "\u00adـ\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
_PLANES = (
    *range(0x00A0, 0x1100),
    *range(0x1200, 0x3131),
    *range(0x3190, 0x4E00),
    *range(0xA000, 0xA960),
    *range(0xA980, 0xAC00),
    *range(0xF900, 0xFFA0),
    *range(0xFFE0, 0x10000),
    *range(0x1D165, 0x1D1AE),
    *range(0x1D400, 0x1D800),
    *range(0x1E000, 0x1E02B),
    *range(0x1EE00, 0x1EF00),
    *range(0x1F100, 0x1F252),
    *range(0x2F800, 0x2FA20),
    *range(0xE0000, 0xE01F0),
)
"""Where characters are that stand for others, or for none. Han, syllables and jamo are left out."""
_LATIN_LETTERS = {
    "\U0001f150": 26,  # white on black circles
    "\U0001f170": 26,  # white on black squares
    "\U0001f1e6": 26,  # flags
}
_NOTHING = "\uffff"  # no character, in place of those that stand for none
_LONGEST_EXPANSION = 4
"""Of one character; the few longer ones are whole sentences in Arabic."""
_PAIRS = {0x1F18E: "ab", 0x1F191: "cl", 0x1F192: "cool", 0x1F196: "ng", 0x1F197: "ok", 0x1F19A: "vs"}
_CAPITAL_I = re.compile(r"[a-z]I|I[a-z]")
_LATIN_WORD = re.compile("[A-Za-z]+")
_ASCII_WORD = str.maketrans({chr(code): " " for code in range(128) if not chr(code).isalpha()})


@cache
def _letters() -> dict[int, int | str]:
    """Return the letters that characters stand for: NFKD without marks, look-alikes, simplified Han."""
    special = {ord(other): letter for other, letter in look_alikes().items() if other.isalpha()}
    for start, count in _LATIN_LETTERS.items():
        special |= {ord(start) + place: chr(ord("a") + place) for place in range(count)}
    special |= {ord(other): simple for other, simple in simplified().items()}
    special |= arabic.LETTERS | _PAIRS | dict.fromkeys(map(ord, _FILLERS), "")
    # A character that is not in the table costs str.translate several times as much as one that stays.
    made: dict[int, int | str] = {code: code for code in range(0x80)}
    for code in _PLANES:
        character = chr(code)
        decomposed = unicodedata.normalize("NFKD", character)
        if decomposed != character or unicodedata.category(character) in ("Mn", "Me", "Cf"):
            kept = (part for part in decomposed if unicodedata.category(part) not in ("Mn", "Me", "Cf"))
            letters = "".join(kept).translate(special)
            made[code] = letters if len(letters) <= _LONGEST_EXPANSION else " "
    return made | special


def skeleton(text: str) -> str:
    """Return a text without what is not seen, and with one letter for all that look like it.

    Case, digits, signs and spaces stay. Words that can be read in a second way are there again, in lines at
    the end.
    """
    if text.isascii():
        return _with_capital_i(text)
    seen = _with_letters(text)
    others = ""
    if hangul.has_loose_jamo(seen):
        seen, others = hangul.part_jamo(seen)
    if others or hangul.has_hangul(seen):
        others = "\n".join((others, hangul.words_with_stretched_vowels(f"{seen}\n{others}")))
    made = arabic.normalise(seen)
    return _with_capital_i(f"{made}\n{others}" if others else made)


def _with_letters(text: str) -> str:
    """Return a text with the letters that its characters stand for."""
    if not is_basic(text):
        return text.translate(_letters())
    single, longer, letters = _basic_letters()
    expanded = longer.sub(lambda found: letters[found[0]], text)
    return expanded.translate(single).replace(_NOTHING, "")


@cache
def _basic_letters() -> tuple[str, re.Pattern[str], dict[str, str]]:
    """Return the same for the basic plane: a string by code, then what becomes several letters.

    A string as the table lets str.translate miss nothing, and is a tenth as large as the dictionary.
    """
    made = {code: letter for code, letter in _letters().items() if code < BASIC and isinstance(letter, str)}
    longer = {chr(code): letters for code, letters in made.items() if len(letters) > 1}
    single = (
        chr(code) if len(made.get(code, "")) > 1 else made.get(code, chr(code)) for code in range(BASIC)
    )
    table = "".join(letter or _NOTHING for letter in single)
    return table, re.compile(f"[{''.join(map(re.escape, longer))}]"), longer


def _with_capital_i(text: str) -> str:
    """Return a text, and after it the words whose capital I may be a small L: bIood."""
    if "I" not in text or not _CAPITAL_I.search(text):
        return text
    found = text.translate(_ASCII_WORD).split() if text.isascii() else _LATIN_WORD.findall(text)
    words = [word for word in found if "I" in word and not word.isupper()]
    return "\n".join((text, " ".join(words).replace("I", "l")))
