"""Bounds on the search for hidden spellings in long texts.

A person can send 2,000 characters, and a text of that length is read in every way. In a longer text with many
signs or short words, every way to hide a word is looked for at the beginning and at the end only. The words
themselves are looked for everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from bot.moderation.codes import SPACE, codes_of
from bot.moderation.scripts import ALNUM, DECIMAL, kinds_of

LONGEST_SENT = 2_000
"""Characters of a text that is read in every way, whatever it consists of."""
_MOST_SIGNS, _MOST_SPACES = 1_000, 2_500  # prose of 10,000 characters has fewer
_END = r"\s,;:()\[\]{}<>\"/\\。、"
_TO_LAST_END = re.compile(rf".*[{_END}]", re.DOTALL)
_FIRST_END = re.compile(rf"[{_END}]")


def bound_of(text: str) -> int | None:
    """Return the bound of a text as a person sent it; None for a text without one."""
    return None if len(text) <= LONGEST_SENT else LONGEST_SENT


def bounded(pieces: Sequence[str], most: int | None) -> list[str]:
    """Return the pieces, or the first and the last of them, of at most so many characters together."""
    if most is None or sum(map(len, pieces)) <= most:
        return list(pieces)
    joined = "\n".join(pieces)
    return [*joined[: most // 2].split("\n")[:-1], *joined[-most // 2 :].split("\n")[1:]]


def beginning_and_end(text: str, most: int | None) -> str:
    """Return a text, or whole words of its beginning and of its end where it has very many signs or spaces."""
    if most is None or len(text) <= most or _is_plain(text):
        return text
    beginning, end = _TO_LAST_END.match(text[: most // 2]), text[-most // 2 :]
    first = _FIRST_END.search(end)
    return f"{beginning[0] if beginning else ''}\n{end[first.start() :] if first else ''}"


def _is_plain(text: str) -> bool:
    codes = codes_of(text)
    spaces = np.count_nonzero(codes <= SPACE)
    letters = np.count_nonzero(kinds_of(codes) & (ALNUM | DECIMAL) == ALNUM)
    return bool(spaces <= _MOST_SPACES and len(text) - spaces - letters <= _MOST_SIGNS)
