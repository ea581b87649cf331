"""The words of a prompt that a checkpoint of few words does not know."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set

HAN = "\u3400-\u4dbf\u4e00-\u9fff"
WORD = re.compile(rf"[{HAN}]+|[^\W\d_{HAN}]+")
IS_HAN = re.compile(f"[{HAN}]")
JOINED = re.compile("[\u0600-\u06ff\uac00-\ud7a3]+")
"""Scripts whose particles are written together with a word: Arabic and Hangul."""

LONGEST, MOST = 40, 8
"""The most characters of a word that is divided, and the most words that are returned."""


def unknown_words(text: str, known: Set[str]) -> tuple[str, ...]:
    """Return the first `MOST` words of `text` that are not in `known`, whose words are in lower case.

    Chinese, which has no spaces, is divided into the longest known words. Arabic and Korean words are known
    if they are made of known ones. Without known words every word counts as known.
    """
    if not known:
        return ()
    found: dict[str, None] = {}
    for match in WORD.finditer(text):
        found |= dict.fromkeys(_unknown_in(match[0].casefold(), known))
        if len(found) >= MOST:
            break
    return tuple(found)[:MOST]


def _unknown_in(word: str, known: Set[str]) -> Iterator[str]:
    if IS_HAN.match(word):
        yield from _not_covered(word, known)
    elif word not in known and not (word.isascii() and len(word) == 1) and not _is_made_of(word, known):
        yield word[:LONGEST]


def _not_covered(text: str, known: Set[str]) -> Iterator[str]:
    """Yield the runs of characters between the longest known words."""
    start = place = 0
    while place < len(text):
        ends = range(min(len(text), place + LONGEST), place, -1)
        end = next((end for end in ends if text[place:end] in known), None)
        if end is None:
            place += 1
            continue
        if start < place:
            yield text[start:place][:LONGEST]
        start = place = end
    if start < place:
        yield text[start:place][:LONGEST]


def _is_made_of(word: str, known: Set[str]) -> bool:
    """Return whether a word of a script with particles is several known words in a row."""
    if len(word) > LONGEST or not JOINED.fullmatch(word):
        return False
    reached = {0}
    for end in range(1, len(word) + 1):
        if any(word[begin:end] in known for begin in reached):
            reached.add(end)
    return len(word) in reached
