"""The rule that no server can switch off: nothing sexual with minors."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import cache, cached_property
from itertools import chain
from typing import Any

from bot.moderation.languages import arabic
from bot.moderation.letters import is_arabic
from bot.moderation.readings import Readings, of_words, read
from bot.moderation.tables import read_lists
from bot.moderation.terms import Terms

_LANGUAGES = ("en", "ko", "zh", "ar")
_SHORTEST_HALF, _LONGEST_JOINED = 2, 40  # letters of one term, and of two that are written together


@cache
def hard_rule() -> BothOf:
    """Return the rule, which matches a text that names a minor, by a word or an age, and something sexual.

    Phrases such as "sex education", "nude lipstick" or "baby blue" count as neither. It is made and prepared
    once, which takes about 0.1 s.
    """
    data = read_lists("hard_rule.toml")
    minors = [word for language in _LANGUAGES for word in data["minors"][language]]
    sexual = [word for language in _LANGUAGES for word in data["sexual"][language]]
    harmless = data["harmless"]["sexual"] + data["harmless"]["minors"]
    ages = _ages(data["ages"])
    rule = BothOf(sexual, [*minors, *ages], harmless=harmless, joints=data["joints"]["en"].split())
    rule.prepare()
    return rule


def _ages(data: dict[str, Any]) -> Iterator[str]:
    """Yield how people write the ages of minors, in digits and in words."""
    for language in _LANGUAGES:
        numbers = [*map(str, range(1, data["oldest"] + 1)), *data[f"{language}_numbers"].split()]
        for form in data[language]:
            yield from map(form.format, numbers)


class BothOf:
    """Two lists of terms of which a text must hold one each; phrases of `harmless` count for neither.

    The two terms may also be written together, one after the other: nudekid, 누드아이. Words of `joints` may
    stand between them: nudelittlekid.
    """

    def __init__(
        self,
        first: Sequence[str],
        second: Sequence[str],
        *,
        harmless: Sequence[str] = (),
        joints: Sequence[str] = (),
    ) -> None:
        self._first, self._second = Terms(first), Terms(second)
        self._joints = re.compile(f"(?:{'|'.join(sorted(joints, key=len, reverse=True))})*")
        spaced = [r"[\s-]+".join(map(re.escape, phrase.split())) for phrase in harmless]
        self._harmless = re.compile(rf"\b(?:{'|'.join(spaced)})") if spaced else None

    def prepare(self) -> None:
        """Build the tables for every language."""
        self._first.prepare()
        self._second.prepare()
        _ = self._beginnings

    def matches(self, text: str | Readings) -> bool:
        """Return whether a text holds a term of each list."""
        readings = read(text) if isinstance(text, str) else text
        if not self._hold(readings):
            return False
        left = readings.lower if self._harmless is None else self._harmless.sub(" ", readings.lower)
        return left == readings.lower or self._hold(read(left))

    def _hold(self, text: Readings) -> bool:
        return (self._first.matches(text) and self._second.matches(text)) or self._hold_joined(text)

    @cached_property
    def _beginnings(self) -> tuple[frozenset[str], frozenset[str]]:
        """The first three letters of all forms, and the first one."""
        heads = self._first.beginnings | self._second.beginnings
        return heads, frozenset(head[0] for head in heads)

    def _hold_joined(self, text: Readings) -> bool:
        """Return whether a word consists of a form of a term of each list, in either order, and joints."""
        halves = {pair for word in self._words(text) for pair in self._divisions(word)}
        if not halves:
            return False
        parts = of_words(list(dict.fromkeys(chain.from_iterable(halves))))
        first, second = self._first.words_of(parts), self._second.words_of(parts)
        return any(
            (one in first and other in second) or (one in second and other in first) for one, other in halves
        )

    def _words(self, text: Readings) -> Iterator[str]:
        """Yield the words of a text that begin as some form does, of at most _LONGEST_JOINED letters.

        Clitics may stand before an Arabic form.
        """
        heads, _ = self._beginnings
        for word, key in zip(text.words, text.keys, strict=True):
            if key[:3] in heads or key[:2] in heads or _begins_later(key, heads):
                short = word if len(word) <= _LONGEST_JOINED else key
                if len(short) <= _LONGEST_JOINED:
                    yield short

    def _divisions(self, word: str) -> Iterator[tuple[str, str]]:
        """Yield both halves of a word, with and without joints between them."""
        arabic_word, letters = is_arabic(word), self._beginnings[1]
        for place in range(_SHORTEST_HALF, len(word) - _SHORTEST_HALF + 1):
            joint = None if arabic_word else self._joints.match(word, place)
            for start in {place, joint.end() if joint else place}:
                if word[start : start + 1] in letters or arabic_word:
                    yield word[:place], word[start:]


def _begins_later(key: str, heads: Collection[str]) -> bool:
    starts = range(1, arabic.LATEST_START + 1) if key[0] in arabic.BEFORE else ()
    return any(key[start : start + 3] in heads for start in starts)
