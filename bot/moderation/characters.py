"""Skeletons of texts: each look-alike character is replaced by the letter that it stands for."""

from __future__ import annotations

import re
import sys
import unicodedata
from dataclasses import dataclass
from functools import cache

import numpy as np

from bot.moderation import arabic, hangul
from bot.moderation.bounds import beginning_and_end
from bot.moderation.scripts import SPACE, Codes, Places, codes_of, text_of
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
"""Ranges with characters that stand for others or for nothing, without Han, syllables and jamo."""
_LATIN_LETTERS = {
    "\U0001f150": 26,  # white on black circles
    "\U0001f170": 26,  # white on black squares
    "\U0001f1e6": 26,  # flags
}
_LAST = sys.maxunicode
_NOTHING = 0xFFFF  # the code of characters that stand for nothing, such as fillers
_TABLED = 0x20000  # characters with an entry of their own in the table
_LONGEST_EXPANSION = 4
"""The most letters for one character; the few longer ones are Arabic phrases, and become a space."""
_PAIRS = {0x1F18E: "ab", 0x1F191: "cl", 0x1F192: "cool", 0x1F196: "ng", 0x1F197: "ok", 0x1F19A: "vs"}
_SURROGATES = re.compile("[\ud800-\udfff]+")
_CAPITAL_I = re.compile(r"I(?:[a-z]|(?<=[a-z].))")
_ASCII_WORD = bytes(code if chr(code).isalpha() else SPACE for code in range(128)) + bytes(128)


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


def skeleton(text: str, most: int | None = None) -> str:
    """Return a text without invisible characters, and with one letter for all that look like it.

    Case, digits, signs and spaces stay. Lines at the end repeat the words that can be read in a second way;
    of a long text only those of its first and last `most` characters; None for all.
    """
    if text.isascii():
        return _with_capital_i(text, beginning_and_end(text, most) if "I" in text else "")
    seen = _with_letters(_characters(text), most)
    near, others = beginning_and_end(seen, most), ""
    whole = near is seen
    if hangul.has_loose_jamo(seen):
        seen, others = hangul.part_jamo(seen, near, most)
        near = seen if whole else near
    if others or hangul.has_hangul(seen):
        others = "\n".join((others, hangul.words_with_stretched_vowels(f"{near}\n{others}")))
    made = arabic.normalise(seen)
    made, near = (f"{each}\n{others}" if others else each for each in (made, made if whole else near))
    return _with_capital_i(made, near)


def _characters(text: str) -> str:
    """Return a text without lone surrogates, which are no characters and take long to encode."""
    try:
        text.encode("utf-16-le")
    except UnicodeEncodeError:
        return _SURROGATES.sub("", text)
    return text


@dataclass(frozen=True, kw_only=True)
class _Table:
    """What each character becomes: a code, or _NOTHING, or beyond _LAST a row of `longer`."""

    codes: Codes
    """What the characters below _TABLED become, by their codes."""
    others: Codes
    """The characters from _TABLED on that change, sorted; `of_others` is what they become."""
    of_others: Codes
    longer: Codes
    """Rows of four letters, filled up with _NOTHING."""


def _with_letters(text: str, most: int | None = None) -> str:
    """Return a text with the letters that its characters stand for.

    Only the first `most` characters that stand for several letters are replaced; the others become spaces.
    """
    table, codes = _table(), codes_of(text)
    letters = table.codes[np.minimum(codes, _TABLED)]
    beyond = np.flatnonzero(codes >= _TABLED)
    if beyond.size:
        places = np.minimum(np.searchsorted(table.others, codes[beyond]), len(table.others) - 1)
        known = table.others[places] == codes[beyond]
        letters[beyond] = np.where(known, table.of_others[places], codes[beyond])
    longer = np.flatnonzero(letters > _LAST)
    if longer.size:
        rows = letters[longer] - _LAST - 1
        letters[longer] = SPACE
        letters = _expanded(letters, longer[:most], table.longer[rows[:most]])
    return text_of(letters[letters != _NOTHING])


def _expanded(letters: Codes, places: Places, rows: Codes) -> Codes:
    """Return letters with a row of letters in place of the one at each place."""
    width = rows.shape[1]
    counts = np.ones(len(letters), np.intp)
    counts[places] = width
    made = np.repeat(letters, counts)
    starts = places + (width - 1) * np.arange(len(places))
    made[starts[:, None] + np.arange(width)] = rows
    return made


@cache
def _table() -> _Table:
    letters = {code: chr(to) if isinstance(to, int) else to for code, to in _letters().items()}
    several = [made for made in letters.values() if len(made) > 1]
    rows = {made: row for row, made in enumerate(dict.fromkeys(several), start=_LAST + 1)}
    become = {
        code: rows[made] if made in rows else ord(made) if made else _NOTHING
        for code, made in letters.items()
    }
    codes = np.arange(_TABLED + 1, dtype=np.uint32)
    near = sorted(code for code in become if code < _TABLED)
    codes[near] = [become[code] for code in near]
    others = sorted(code for code in become if code >= _TABLED)
    padded = [[*map(ord, made), *[_NOTHING] * (_LONGEST_EXPANSION - len(made))] for made in rows]
    return _Table(
        codes=codes,
        others=np.array(others, np.uint32),
        of_others=np.array([become[code] for code in others], np.uint32),
        longer=np.array(padded, np.uint32),
    )


def _with_capital_i(text: str, near: str) -> str:
    """Return a text, and after it the words of `near` whose capital I may be a small L: bIood."""
    if "I" not in near or not _CAPITAL_I.search(near):
        return text
    found = near.encode("ascii", "replace").translate(_ASCII_WORD).split()
    words = [word.decode() for word in found if b"I" in word and not word.isupper()]
    return "\n".join((text, " ".join(words).replace("I", "l")))
