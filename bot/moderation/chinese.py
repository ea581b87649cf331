"""Chinese: terms are found anywhere, except where their characters belong to other common words."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from bot.moderation.scripts import (
    ALNUM,
    CLAUSE_END,
    DECIMAL,
    HAN,
    LINE_BREAK,
    TAB,
    codes_of,
    kinds_of,
    runs,
    squeeze,
    text_of,
    within,
)
from bot.moderation.tables import read_words

_ASCII = 0x80
_DIGIT_OR_DOUBLED = re.compile(r"\d|(.)\1")
_PAIRS, _FACTOR = 1 << 16, 31
_KINDS = tuple(map(frozenset, ("零一二三四五六七八九十百", string.digits, string.ascii_lowercase)))
_LONGEST_WORD = 4
MAX_EXPLAINED = 50
"""So many matches of a text are compared with common words; later ones count unchecked. Bounds the time."""


@dataclass(frozen=True, kw_only=True)
class Clauses:
    """A text without spaces and signs; a line break stands for the end of a clause."""

    clauses: str
    versions: tuple[str, ...]
    """The strings to search: the clauses as they are, without numbers, and without repeated characters."""


def read_clauses(text: str) -> Clauses:
    """Return the clauses of a text in lower case; tabs separate words in Latin letters."""
    codes = codes_of(text)
    kinds = kinds_of(codes)
    words, ends = kinds & ALNUM != 0, kinds & CLAUSE_END != 0
    kept = words | ends
    kept[1:] &= ~(ends[1:] & ends[:-1])
    codes = np.where(ends, LINE_BREAK, codes)
    latin = np.zeros(len(codes) + 1, np.bool_)  # index -1 and the last are False
    latin[:-1] = words & (codes < _ASCII)
    # Signs between two words in Latin letters, or digits, are a tab; all others go.
    first, last = runs(~(words | ends))
    between = first[latin[first - 1] & latin[last + 1]]
    codes[between], kinds[between], kept[between] = TAB, 0, True
    codes, kinds = codes[kept], kinds[kept]
    clauses = without_numbers = text_of(codes)
    digits = kinds & DECIMAL != 0
    if digits.any():
        first, last = runs(digits)
        han = np.zeros(len(codes) + 1, np.bool_)
        han[:-1] = kinds & HAN != 0
        before_han = han[last + 1]
        without_numbers = text_of(codes[~within(len(codes), first[before_han], last[before_han])])
    versions = (clauses, without_numbers, squeeze(without_numbers))
    return Clauses(clauses=clauses, versions=tuple(dict.fromkeys(versions)))


def found(text: Clauses, terms: Iterable[str]) -> set[str]:
    """Return which terms a text holds; a term is one string without spaces and signs."""
    budget = [MAX_EXPLAINED]
    codes = codes_of(text.clauses)
    places = np.flatnonzero(codes != LINE_BREAK)  # of the characters of `unbroken`
    unbroken = text_of(codes[places])
    made = set()
    for term in _possible(terms, text.versions[-1].replace("\n", "")):
        if any(_holds(version, term, budget) for version in text.versions):
            made.add(term)
        elif len(term) > 1 and len(unbroken) < len(text.clauses):
            found = (places[[start, start + len(term) - 1]] for start in _places(unbroken, term))
            if any(_splits(text.clauses, int(first), int(last), len(term), budget) for first, last in found):
                made.add(term)
    return made


def _places(text: str, term: str) -> Iterator[int]:
    """Yield where a term begins in a text."""
    start = text.find(term)
    while start >= 0:
        yield start
        start = text.find(term, start + 1)


def _possible(terms: Iterable[str], unbroken: str) -> list[str]:
    """Return the terms that may be in a text whose last version, without its line breaks, is `unbroken`.

    A term without digits and repeated characters is in the last version if it is in any version.
    """
    codes = codes_of(unbroken)
    pairs = np.zeros(_PAIRS, np.bool_)  # by a 16-bit hash of two neighbours; hashes may collide
    pairs[(codes[:-1] * _FACTOR + codes[1:]) % _PAIRS] = True
    return [
        term
        for term in terms
        if _DIGIT_OR_DOUBLED.search(term)
        or ((len(term) == 1 or pairs[(ord(term[0]) * _FACTOR + ord(term[1])) % _PAIRS]) and term in unbroken)
    ]


def _holds(text: str, term: str, budget: list[int]) -> bool:
    """Return whether `term` stands anywhere in `text` where no common words explain it."""
    before, after = _kind_of(term[0]), _kind_of(term[-1])
    for start in _places(text, term):
        end = start + len(term)
        if (start and text[start - 1] in before) or text[end : end + 1] in after:
            continue  # a part of a longer number or Latin word: A片 in NBA片段, 五岁 in 十五岁
        if len(term) == 1 or budget[0] <= 0 or not _explained(text, start, end):
            return True
        budget[0] -= 1
    return False


def _kind_of(character: str) -> frozenset[str]:
    """Return the numerals, digits or letters that a character belongs to; else none."""
    return next((kind for kind in _KINDS if character in kind), frozenset())


def _explained(text: str, start: int, end: int) -> bool:
    """Return whether words that reach beyond the match cover all of it."""
    words = read_words("chinese_words.txt")
    covered = start
    while covered < end:
        reach = covered
        for first in range(max(0, covered - _LONGEST_WORD + 1), covered + 1):
            for last in range(covered + 1, min(len(text), first + _LONGEST_WORD) + 1):
                if (first < start or last > end) and text[first:last] in words:
                    reach = max(reach, last)
        if reach == covered:
            return False
        covered = reach
    return True


def _splits(clauses: str, first: int, last: int, length: int, budget: list[int]) -> bool:
    """Return whether ends of clauses split a term, and a clause begins or ends where the term does: 血，腥.

    The characters at `first` and `last` are its first and its last one, `length` is its length.
    """
    if budget[0] <= 0:
        return True
    budget[0] -= 1
    begins = clauses[first - 1 : first] in ("", "\n")
    ends = clauses[last + 1 : last + 2] in ("", "\n")
    return last - first >= length and (begins or ends)
