"""Chinese: terms are found anywhere, except where their characters belong to other common words."""

from __future__ import annotations

import re
import string

import numpy as np

from bot.moderation.letters import (
    DIGIT,
    ENDS_CLAUSE,
    HAN,
    HAN_LETTERS,
    LETTER,
    codes_of,
    has_cjk,
    kinds_of,
    squeeze,
    text_of,
)
from bot.moderation.tables import read_words

_KINDS = tuple(map(frozenset, ("零一二三四五六七八九十百", string.digits, string.ascii_lowercase)))
_APART = re.compile(rf"(?<!\w)[{HAN_LETTERS}](?:\W+[{HAN_LETTERS}](?!\w))+")  # 血,腥
LONGEST_WORD = 4


def forms(word: str) -> set[str]:
    """Return a term without spaces and signs, as clauses have it; it has no endings."""
    return {clauses.replace("\n", "") for clauses in words(word)[:1]}


def words(text: str) -> list[str]:
    """Return the clauses of a text between line breaks, without spaces and signs, in two versions.

    The second one has no digits and no repeated characters: 血1腥, 血血腥. Characters that stand alone, one
    after the other, are one clause: 血,腥.
    """
    if not has_cjk(text):
        return []
    codes = codes_of(_APART.sub(lambda found: "".join(filter(has_cjk, found[0])), text))
    kinds = kinds_of(codes)
    ends = kinds & ENDS_CLAUSE != 0
    codes = np.where(ends, np.uint32(ord("\n")), codes)
    spelled = ends | (kinds & (LETTER | HAN) != 0)
    whole = spelled | (kinds & DIGIT != 0)
    return list(dict.fromkeys((text_of(codes[whole]), squeeze(text_of(codes[spelled])))))


def is_part_of_other(word: str, start: int, end: int) -> bool:
    """Return whether a match is a part of a longer number or Latin word, or of common words that cover it.

    五岁 in 十五岁, A片 in NBA片段; 色情 in 红色情人节.
    """
    before, after = _kind_of(word[start]), _kind_of(word[end - 1])
    if word[start - 1 : start] in before or word[end : end + 1] in after:
        return True
    if end - start == 1:
        return False
    common = read_words("chinese_words.txt")
    covered = start  # by words that begin before the match
    for first in range(max(0, start - LONGEST_WORD + 1), start):
        for last in range(start + 1, min(len(word), first + LONGEST_WORD) + 1):
            if word[first:last] in common:
                covered = max(covered, last)
    left = end  # to words that end after it
    for last in range(end + 1, min(len(word), end + LONGEST_WORD - 1) + 1):
        for first in range(max(0, last - LONGEST_WORD), end):
            if word[first:last] in common:
                left = min(left, first)
    return covered >= left


def _kind_of(character: str) -> frozenset[str]:
    """Return the numerals, digits or letters that a character belongs to; else none."""
    return next((kind for kind in _KINDS if character in kind), frozenset())
