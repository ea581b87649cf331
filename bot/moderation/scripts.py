"""Classes of characters for regular expressions, and words by script."""

from __future__ import annotations

import re

CJK = "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
"""Han and kana, which are written without spaces between words."""
HANGUL = "\u1100-\u11ff가-힣"
ARABIC = "\u0620-\u064a\u066e-\u06d3\u06d5\u06fa-\u06ff"

_WORD = re.compile(rf"[^\W\d_{CJK}]+")
_NUMBERED_WORD = re.compile(rf"[^\W_{CJK}]+")
_LATIN = re.compile(r"[a-z]")
_CHANGE = re.compile(rf"[a-z][{HANGUL}{ARABIC}]|[{HANGUL}{ARABIC}][a-z]")
_WORD_OF_ONE_SCRIPT = re.compile(rf"[^\W\d_{CJK}{HANGUL}{ARABIC}]+|[{HANGUL}]+|[{ARABIC}]+")
_ASCII_WORD = str.maketrans({chr(code): " " for code in range(128) if not chr(code).isalpha()})
_ASCII_NUMBERED_WORD = str.maketrans({chr(code): " " for code in range(128) if not chr(code).isalnum()})
_HAS_CJK = re.compile(f"[{CJK}]")
_HAS_DIGIT = re.compile(r"\d")


def words_of(text: str) -> list[str]:
    """Return the words of a text in order: letters of one script. Han has no words."""
    if text.isascii():
        return text.translate(_ASCII_WORD).split()
    mixed = _LATIN.search(text) and _CHANGE.search(text)
    found: list[str] = (_WORD_OF_ONE_SCRIPT if mixed else _WORD).findall(text)
    return found


def numbered_words_of(text: str) -> list[str]:
    """Return the words of a text with their digits, in order: 15yo, 69, 15살."""
    if text.isascii():
        return text.translate(_ASCII_NUMBERED_WORD).split()
    found: list[str] = _NUMBERED_WORD.findall(text)
    return found


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
