"""Bounds on the search for hidden spellings in long texts.

A person can send 2,000 characters, and a text of that length is read in every way. A longer text may consist
of very many short words, signs, or scripts that alternate. Then hidden spellings are searched for only at its
beginning and its end. Words as they stand, stretched words, and words of look-alike characters are searched
for everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from bot.moderation.scripts import ALNUM, ARAB, DECIMAL, HAN, KOREAN, LATIN, SPACE, codes_of, kinds_of

_TOLD_APART = ALNUM | DECIMAL | HAN | KOREAN | ARAB | LATIN
_SPACES = 1 << 15
LONGEST_SENT = 2_000
"""A text of at most so many characters is read in every way."""
_MOST_HIDDEN = 600
"""At most so many characters of a longer text are read in each of the costly ways."""
_MOST_CHANGES = 1_500
"""Signs, digits and changes of kind up to which a text is read whole; prose of 3,500 characters has fewer."""
_SPACE_OR_LISTING = re.compile(r"[\s,;:()\[\]{}<>\"/\\。、]")
_SPACE = re.compile(r"\s")


def bound_of(text: str) -> int | None:
    """Return how many characters of a text are read in the costly ways; None for all."""
    return None if len(text) <= LONGEST_SENT else _MOST_HIDDEN


def bounded(pieces: Sequence[str], most: int | None) -> list[str]:
    """Return the pieces, or the first and last of them if all have more than `most` characters together."""
    if most is None or sum(map(len, pieces)) <= most:
        return list(pieces)
    joined = "\n".join(pieces)
    return [*joined[: most // 2].split("\n")[:-1], *joined[-most // 2 :].split("\n")[1:]]


def beginning_and_end(text: str, most: int | None) -> str:
    """Return a text; if it is long and varied, only whole words of its beginning and its end."""
    if most is None or len(text) <= most or _is_plain(text):
        return text
    beginning, end = text[: most // 2], text[-most // 2 :]
    first, last = _place(end), _place(beginning[::-1])
    return f"{beginning[: len(beginning) - last]}\n{end[first:]}"


def _place(text: str) -> int:
    """Return the index of the first space, else of the first comma, bracket or the like, else the length."""
    found = _SPACE.search(text) or _SPACE_OR_LISTING.search(text)
    return found.start() if found else len(text)


def _is_plain(text: str) -> bool:
    codes = codes_of(text)
    kinds = np.where(codes <= SPACE, _SPACES, kinds_of(codes) & _TOLD_APART)
    changes = np.count_nonzero(kinds[1:] != kinds[:-1])
    letters = np.count_nonzero((kinds & (ALNUM | DECIMAL) == ALNUM) | (kinds == _SPACES))
    return bool(changes + len(text) - letters <= _MOST_CHANGES)
