"""A list of terms made ready, and the search for them in the readings of a text.

A term is one of these:

    blood, 피, دم          a word, in its forms and at its boundaries; Han and kana anywhere
    dead body              a phrase: its words one after the other, whatever stands between them
    blood*, *blood*        the beginning of a word, its end (*blood), or any part of it; as it is spelled
    x, 69                  one letter, or digits: standing alone
    💉, ><                  signs only: anywhere, as they are
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import chain, compress, product

from bot.moderation import chinese
from bot.moderation.characters import skeleton
from bot.moderation.mending import as_letters
from bot.moderation.readings import Readings, mask, read
from bot.moderation.scripts import has_cjk, has_digit, is_hangul, numbered_words_of, words_of
from bot.moderation.vocabulary import Hits, Vocabulary

_SHAPE_IN_TERM = re.compile(r"[@$€£]|(?<=[a-z])[!|+](?=[a-z])")
_MASK_IN_TERM = re.compile(r"(?<=[a-z])[*#%]+(?=[a-z])")
_SHORTEST_JOINED_PHRASE = 5
_SHORTEST_INSIDE_RUN = 5
_FEW = 6
_EVERY_SCRIPT = "bI1 가ㄱ 中 ع"  # makes the tables of characters, once in a process

Numbers = defaultdict[str, set[int]]
"""For what is looked for, the places in the list of the terms that ask for it."""


class Terms:
    """A list of terms, ready to be looked for in any number of texts."""

    def __init__(self, terms: Sequence[str]) -> None:
        self.terms = tuple(terms)
        self._words: Numbers = defaultdict(set)
        self._phrases: defaultdict[tuple[str, ...], set[int]] = defaultdict(set)
        self._chinese: Numbers = defaultdict(set)
        self._alone: Numbers = defaultdict(set)
        self._signs: Numbers = defaultdict(set)
        self._parts: Numbers = defaultdict(set)
        self._masked: Numbers = defaultdict(set)
        for number, term in enumerate(self.terms):
            self._add(number, " ".join(skeleton(term).partition("\n")[0].casefold().split()))
        self._vocabulary = Vocabulary(chain(self._words, *self._phrases))

    def prepare(self) -> None:
        """Make what searches need in any language: the first search is then as quick as the others."""
        read(_EVERY_SCRIPT)
        self._vocabulary.prepare()
        if self._chinese:
            _ = self._chinese_character

    def matches(self, text: str | Readings) -> bool:
        """Return whether a text holds any of the terms."""
        return next(self._numbers(_readings(text)), None) is not None

    def find(self, text: str | Readings) -> str | None:
        """Return the first term of the list that a text holds, or None."""
        numbers = set(self._numbers(_readings(text)))
        return self.terms[min(numbers)] if numbers else None

    def find_all(self, text: str | Readings) -> list[str]:
        """Return every term that a text holds, in the order of the list."""
        return [self.terms[number] for number in sorted(set(self._numbers(_readings(text))))]

    def _add(self, number: int, term: str) -> None:
        """Put one term, in its skeleton, among those that are looked for in the same way."""
        if not any(map(str.isalnum, term)):
            if term:
                self._signs[term].add(number)
        elif has_cjk(term):
            self._chinese["".join(filter(str.isalnum, term))].add(number)
        elif (part := term.strip("*")) != term and part.isalnum():
            start, end = "" if term[0] == "*" else "\n", "" if term[-1] == "*" else "\n"
            self._parts[f"{start}{part}{end}"].add(number)
        else:
            self._add_words(number, term)

    def _add_words(self, number: int, term: str) -> None:
        if _MASK_IN_TERM.search(term):
            self._masked[mask(term)].add(number)
            term = _MASK_IN_TERM.sub("", term)
        if _SHAPE_IN_TERM.search(term):
            term = as_letters(term)
        words = tuple(numbered_words_of(term) if has_digit(term) else words_of(term))
        if len(words) > 1:
            self._phrases[words].add(number)
            joined = "".join(words)
            if len(joined) >= _SHORTEST_JOINED_PHRASE or is_hangul(joined):
                self._words[joined].add(number)
        elif words and len(words[0]) == 1 and not is_hangul(words[0]):
            self._alone[words[0]].add(number)
        elif words:
            self._words[words[0]].add(number)

    def _numbers(self, text: Readings) -> Iterator[int]:
        """Yield the numbers of the terms that a text holds, some of them twice."""
        hits = self._vocabulary.hits(text)
        yield from _numbers_of(chain.from_iterable(hits.values()), self._words)
        if any(sign in text.lower for sign in self._alone):
            yield from _numbers_of(text.alone, self._alone)
        yield from _numbers_of((sign for sign in self._signs if sign in text.lower), self._signs)
        if self._chinese and (possible := self._possible_chinese(text)):
            yield from _numbers_of(chinese.found(text.clauses, possible), self._chinese)
        if text.masked:
            yield from _numbers_of(text.masked, self._masked)
            yield from _numbers_of(self._vocabulary.masked(text), self._words)
        if self._parts:
            words = "\n".join(("", *text.words, ""))
            yield from _numbers_of((part for part in self._parts if part in words), self._parts)
        if text.syllables:
            yield from _numbers_of(self._vocabulary.apart(text), self._words)
        yield from _numbers_of(self._words_in_runs(text), self._words)
        if self._phrases:
            yield from self._numbers_of_phrases(text, hits)

    def _possible_chinese(self, text: Readings) -> list[str]:
        """Return the Chinese terms all of whose characters a text holds, and of few only those in order."""
        there = set() if text.lower.isascii() else set(self._chinese_character.findall(text.lower))
        possible = [term for term in self._chinese if there.issuperset(term)] if there else []
        if len(possible) > _FEW:
            return possible
        return [
            term for term in possible if has_digit(term) or chinese.loose_pattern(term).search(text.lower)
        ]

    @cached_property
    def _chinese_character(self) -> re.Pattern[str]:
        characters = sorted(set(chain.from_iterable(self._chinese)))
        return re.compile(f"[{''.join(map(re.escape, characters))}]")

    def _words_in_runs(self, text: Readings) -> list[str]:
        """Return the longer words inside long runs of single letters: r e d b l o o d d r o p s."""
        runs = [run for run in text.runs if len(run) >= 2 * _SHORTEST_INSIDE_RUN]
        if not runs:
            return []
        joined = "\n".join(runs)
        words = (word for word in self._words if len(word) >= _SHORTEST_INSIDE_RUN and word in joined)
        return [word for word in words if any(len(run) >= 2 * len(word) and word in run for run in runs)]

    def _numbers_of_phrases(self, text: Readings, hits: Hits) -> Iterator[int]:
        there = set().union(*hits.values())
        possible = [phrase for phrase in self._phrases if there.issuperset(phrase)]
        if not possible:
            return
        asked = frozenset(chain.from_iterable(possible))
        owns = {word: own & asked for word, own in hits.items() if own & asked}
        lengths = set(map(len, possible))
        for sequence in text.sequences:
            known = [*map(owns.__contains__, sequence), False]
            starts = [start for start in compress(range(len(sequence)), known) if known[start + 1]]
            for length in lengths:
                for words in {tuple(sequence[start : start + length]) for start in starts}:
                    for phrase in product(*(owns.get(word, ()) for word in words)):
                        yield from self._phrases.get(phrase, ())


def _numbers_of(found: Iterable[str], numbers: Numbers) -> Iterator[int]:
    for each in found:
        yield from numbers.get(each, ())


def _readings(text: str | Readings) -> Readings:
    return read(text) if isinstance(text, str) else text


@lru_cache(maxsize=256)
def _compiled(terms: tuple[str, ...]) -> Terms:
    return Terms(terms)


def matches(text: str, terms: Sequence[str]) -> bool:
    """Return whether a text holds any of the terms, also where people try to hide them."""
    return _compiled(tuple(terms)).matches(text)


def find(text: str, terms: Sequence[str]) -> str | None:
    """Return the first of the terms that a text holds, or None."""
    return _compiled(tuple(terms)).find(text)


def find_all(text: str, terms: Sequence[str]) -> list[str]:
    """Return all of the terms that a text holds, in their order."""
    return _compiled(tuple(terms)).find_all(text)


def matches_both(text: str, first: Sequence[str], second: Sequence[str]) -> bool:
    """Return whether a text holds a term of each of two lists."""
    readings = read(text)
    return _compiled(tuple(first)).matches(readings) and _compiled(tuple(second)).matches(readings)
