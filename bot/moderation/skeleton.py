"""The skeleton of a text: each character is replaced by the letters that it stands for, by one table.

The table holds NFKD without marks, look-alikes, variants of Arabic letters, digits and simplified Han. It is
made of one version of Unicode, so that a rule finds the same on every Python.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import unicodedata2

from bot.moderation.letters import Codes, codes_of, text_of
from bot.moderation.tables import look_alikes, read_words

_SPANS = (
    *((0x80, 0x1100), (0x1200, 0x3131), (0x318F, 0x3400), (0xA000, 0xA960), (0xA980, 0xAC00)),
    *((0xD800, 0xE000), (0xF900, 0xFFA0), (0xFFE0, 0x20000), (0x2F800, 0x2FA20), (0xE0000, 0xE01F0)),
)
"""Characters that may stand for others or for nothing; without Han, syllables and jamo."""
_NO_LETTERS = ("Mn", "Me", "Cf", "Cs")  # marks, invisible characters, lone surrogates
_ALPHABETS = (0x1F150, 0x1F170, 0x1F1E6)  # from a to z: white on black circles, on squares, and flags
_OTHERS = dict.fromkeys("ءٴـ\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0", "") | dict.fromkeys("’‘ʼ´′", "'")
_NOTHING = 0x11_0000  # beyond the last code: no letter; codes above are rows of several letters
_LONGEST = 4  # letters for one character; the few that stand for more are Arabic phrases, and become a space


def skeleton(text: str) -> str:
    """Return a text without invisible characters, and with one letter for all that look like it.

    Case, digits, signs and spaces stay.
    """
    if text.isascii():
        return text
    table, rows = _table()
    codes = table[codes_of(text)]
    several = np.flatnonzero(codes > _NOTHING)
    if several.size:
        counts = np.ones(len(codes), np.intp)
        counts[several] = _LONGEST
        letters = rows[codes[several] - _NOTHING - 1]
        codes = np.repeat(codes, counts)
        codes[codes > _NOTHING] = letters.ravel()
    return text_of(codes[codes != _NOTHING])


@cache
def _table() -> tuple[Codes, Codes]:
    """Return what each character becomes, and the rows of letters of those that stand for several."""
    every = [chr(code) for start, end in _SPANS for code in range(start, end)]
    special = _special(every)
    decomposed = unicodedata2.normalize("NFKD", "\n".join(every)).split("\n")
    pairs = zip(every, decomposed, strict=True)
    letters = {ord(one): made.translate(special) for one, made in pairs if one != made} | special
    several = sorted({made if len(made) <= _LONGEST else " " for made in letters.values() if len(made) > 1})
    places = {made: _NOTHING + place for place, made in enumerate(several, start=1)} | {"": _NOTHING}
    table = np.arange(_NOTHING, dtype=np.uint32)
    for code, made in letters.items():
        short = made if len(made) <= _LONGEST else " "
        table[code] = places[short] if short in places else ord(short)
    rows = np.full((len(several), _LONGEST), _NOTHING, np.uint32)
    for row, made in enumerate(several):
        rows[row, : len(made)] = codes_of(made)
    return table, rows


def _special(characters: list[str]) -> dict[int, str]:
    """Return the letters of the characters that do not stand for those of their NFKD."""
    made = dict(_OTHERS)
    for character, category in zip(characters, map(unicodedata2.category, characters), strict=True):
        if category in _NO_LETTERS:
            made[character] = ""
        elif category == "Nd":
            made[character] = str(unicodedata2.decimal(character))
    alike = look_alikes().items()
    made |= {other: letter for other, letter in alike if unicodedata2.category(other)[0] == "L"}
    made |= {pair[0]: pair[1] for pair in read_words("traditional.txt")}
    made |= {chr(start + place): chr(ord("a") + place) for start in _ALPHABETS for place in range(26)}
    return {ord(character): letter for character, letter in made.items()}
