"""Classes of characters for regular expressions, and words by script."""

from __future__ import annotations

import re
from functools import cache

CJK = "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
"""Han and kana, which are written without spaces between words."""
BASIC = 0x10000  # characters
HANGUL = "\u1100-\u11ff가-힣"
ARABIC = "\u0620-\u064a\u066e-\u06d3\u06d5\u06fa-\u06ff"

_LETTER = rf"[^\W\d_{CJK}]"
_LETTER_OR_DIGIT = rf"[^\W_{CJK}]"
_LETTER_OF_OTHERS = rf"[^\W\d_{CJK}{HANGUL}{ARABIC}]"
_LATIN = re.compile(r"[a-z]")
_CHANGE = re.compile(rf"[a-z][{HANGUL}{ARABIC}]|[{HANGUL}{ARABIC}][a-z]")
_ASCII_WORD = str.maketrans({chr(code): " " for code in range(128) if not chr(code).isalpha()})
_ASCII_NUMBERED_WORD = str.maketrans({chr(code): " " for code in range(128) if not chr(code).isalnum()})
_HAS_CJK = re.compile(f"[{CJK}]")
_HAS_DIGIT = re.compile(r"\d")


def words_of(text: str) -> list[str]:
    """Return the words of a text in order: letters of one script. Han has no words."""
    if text.isascii():
        return text.translate(_ASCII_WORD).split()
    mixed = _LATIN.search(text) and _CHANGE.search(text)
    letter = _LETTER_OF_OTHERS if mixed else _LETTER
    found: list[str] = _words(letter, basic=is_basic(text), by_script=bool(mixed)).findall(text)
    return found


def numbered_words_of(text: str) -> list[str]:
    """Return the words of a text with their digits, in order: 15yo, 69, 15살."""
    if text.isascii():
        return text.translate(_ASCII_NUMBERED_WORD).split()
    found: list[str] = _words(_LETTER_OR_DIGIT, basic=is_basic(text)).findall(text)
    return found


def is_basic(text: str) -> bool:
    """Return whether every character is of the basic plane; this is the fastest way to know."""
    return len(text.encode("utf-16-le", "surrogatepass")) == 2 * len(text)


@cache
def _words(letter: str, *, basic: bool, by_script: bool = False) -> re.Pattern[str]:
    """Match runs of characters of a class; with `by_script`, also of Hangul, and of Arabic.

    `basic` is for texts of the basic plane: its ranges, written out, become a table in re, which is faster.
    """
    if basic:
        plane = "".join(map(chr, range(BASIC)))
        spans = (found.span() for found in re.finditer(f"{letter}+", plane))
        letter = "[" + "".join(rf"\u{start:04x}-\u{end - 1:04x}" for start, end in spans) + "]"
    return re.compile(f"{letter}+|[{HANGUL}]+|[{ARABIC}]+" if by_script else f"{letter}+")


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
