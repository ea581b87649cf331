"""The characters of texts: arrays of their codes, their kinds, and words by script.

An operation on an array is many times as fast as a pass of `re`.
"""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import numpy.typing as npt

Places = npt.NDArray[np.intp]
Codes = npt.NDArray[np.uint32]
Flags = npt.NDArray[np.bool_]

TAB, LINE_BREAK, SPACE = 0x09, 0x0A, 0x20
_REPEATED = re.compile(r"(.)(?=\1)")
_SHORT = 100  # characters; for shorter texts re is as fast as an array
_ENCODING, _ERRORS = "utf-32-le", "surrogatepass"

CJK = "\u3040-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
"""Han and kana, which are written without spaces between words."""
HANGUL = "\u1100-\u11ff가-힣"
ARABIC = "\u0620-\u064a\u066e-\u06d3\u06d5\u06fa-\u06ff"

JAMO = "\u1100-\u11ff\u3131-\u318e\uffa1-\uffdc"

LIKE_VOWELS = "lI1|丨r"
CLAUSE_ENDS = ",;:!?。、\n"

ALNUM, DECIMAL, HAN, KOREAN, ARAB, LATIN, LOOSE, LIKE_VOWEL, CLAUSE_END = (1 << bit for bit in range(9))
"""Kinds of characters: letters and numbers, digits, then scripts; LATIN is a to z, LOOSE is a jamo."""
_TABLED = 0x40000
"""Characters with an entry of their own in the table; there are no letters beyond."""
_SCRIPTS = ((CJK, HAN), (HANGUL, KOREAN), (ARABIC, ARAB), ("a-z", LATIN), (JAMO, LOOSE))
_SIGNS = ((LIKE_VOWELS, LIKE_VOWEL), (CLAUSE_ENDS, CLAUSE_END))

_ASCII_WORD = str.maketrans({chr(code): " " for code in range(128) if not chr(code).isalpha()})
_ASCII_NUMBERED_WORD = str.maketrans({chr(code): " " for code in range(128) if not chr(code).isalnum()})
_HAS_CJK = re.compile(f"[{CJK}]")
_HAS_DIGIT = re.compile(r"\d")


def codes_of(text: str) -> Codes:
    """Return the code of each character; the array is read-only."""
    return np.frombuffer(text.encode(_ENCODING, _ERRORS), np.uint32)


def text_of(codes: Codes) -> str:
    """Return the text of these codes."""
    return codes.tobytes().decode(_ENCODING, _ERRORS)


def runs(flags: Flags) -> tuple[Places, Places]:
    """Return the first place and the last place of each run of set flags."""
    around = np.zeros(len(flags) + 2, np.bool_)
    around[1:-1] = flags
    edges = np.flatnonzero(around[1:] != around[:-1])
    return edges[::2], edges[1::2] - 1


def within(length: int, first: Places, last: Places) -> Flags:
    """Return which of `length` places are in a run from a `first` to its `last` place; no runs touch."""
    changes = np.zeros(length + 1, np.int8)
    changes[first] = 1
    changes[last + 1] = -1
    inside: Flags = np.cumsum(changes[:-1], dtype=np.int8) != 0
    return inside


def squeeze(text: str) -> str:
    """Return a text with one character for each run of the same character; line breaks all stay."""
    if len(text) < _SHORT:
        return _REPEATED.sub("", text)
    codes = codes_of(text)
    kept = np.ones(len(codes), np.bool_)
    kept[:-1] = (codes[:-1] != codes[1:]) | (codes[:-1] == LINE_BREAK)
    return text_of(codes[kept])


@cache
def _kinds() -> npt.NDArray[np.uint16]:
    made = np.zeros(_TABLED + 1, np.uint16)
    every = "".join(map(chr, range(_TABLED)))
    for pattern, kind in (("[^\\W_]+", ALNUM), (r"\d+", DECIMAL)):
        for found in re.finditer(pattern, every):
            made[found.start() : found.end()] |= kind
    for script, kind in _SCRIPTS:
        for first, last in re.findall("(.)(?:-(.))?", script):
            made[ord(first) : ord(last or first) + 1] |= kind
    for signs, kind in _SIGNS:
        made[list(map(ord, signs))] |= kind
    return made


def kinds_of(codes: Codes) -> npt.NDArray[np.uint16]:
    """Return the kinds of characters as bits."""
    return _kinds()[np.minimum(codes, _TABLED)]


def words_of(text: str) -> list[str]:
    """Return the words of a text in order; Han characters belong to no word.

    If the text has Latin letters next to Hangul or Arabic ones, words also end where the script changes.
    """
    if text.isascii():
        return text.translate(_ASCII_WORD).split()
    codes = codes_of(text)
    kinds = kinds_of(codes)
    letters = kinds & (ALNUM | DECIMAL | HAN) == ALNUM
    latin, hangul, arab = (kinds & kind != 0 for kind in (LATIN, KOREAN, ARAB))
    others = hangul | arab
    if not ((latin[1:] & others[:-1]) | (latin[:-1] & others[1:])).any():
        return text_of(np.where(letters, codes, SPACE)).split()
    letters |= others
    changes = (hangul[1:] != hangul[:-1]) | (arab[1:] != arab[:-1])
    places = np.flatnonzero(changes & letters[1:] & letters[:-1]) + 1
    return text_of(np.insert(np.where(letters, codes, SPACE), places, SPACE)).split()


def numbered_words_of(text: str) -> list[str]:
    """Return the words of a text with their digits, in order: 15yo, 69, 15살."""
    if text.isascii():
        return text.translate(_ASCII_NUMBERED_WORD).split()
    codes = codes_of(text)
    return text_of(np.where(kinds_of(codes) & (ALNUM | HAN) == ALNUM, codes, SPACE)).split()


def has_cjk(text: str) -> bool:
    """Return whether a text holds Han or kana."""
    return not text.isascii() and _HAS_CJK.search(text) is not None


def has_digit(text: str) -> bool:
    """Return whether a text holds a digit."""
    return _HAS_DIGIT.search(text) is not None


def is_hangul(word: str) -> bool:
    """Return whether a word ends in Hangul, so that a particle may follow."""
    return "가" <= word[-1:] <= "힣" or "\u1100" <= word[-1:] <= "\u11ff"


def is_arabic(word: str) -> bool:
    """Return whether a word ends in an Arabic letter."""
    return "\u0620" <= word[-1:] <= "\u06ff"


def is_latin(word: str) -> bool:
    """Return whether a word consists of the letters a to z."""
    return word.isascii() and word.isalpha()
