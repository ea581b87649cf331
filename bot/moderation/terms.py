"""A list of terms made ready, and the search for them in the readings of a text."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import chain, product

from bot.moderation import arabic, chinese, english, hangul
from bot.moderation.characters import skeleton
from bot.moderation.mending import as_letters
from bot.moderation.readings import Readings, mask, read
from bot.moderation.scripts import (
    has_cjk,
    has_digit,
    is_arabic,
    is_hangul,
    is_latin,
    numbered_words_of,
    words_of,
)
from bot.moderation.stretching import is_stretched, is_stretched_end, squeeze

_LEET_IN_TERM = re.compile(r"[@$€£]|(?<=[a-z])[!|+](?=[a-z])")
_MASKED_TERM = re.compile(r"(?<=\w)[*#%]+(?=\w)")
_SHORTEST_JOINED_PHRASE = 5
_SHORTEST_INSIDE_RUN = 5
_MOST_PLACES = 64

Hits = dict[str, set[str]]
"""The words of terms that each word of a text is a form of."""


class Terms:
    """A list of terms, ready to be looked for in any number of texts."""

    def __init__(self, terms: Sequence[str]) -> None:
        self.terms = tuple(terms)
        self._words: dict[str, set[int]] = defaultdict(set)
        self._phrases: dict[tuple[str, ...], set[int]] = defaultdict(set)
        self._chinese: dict[str, set[int]] = defaultdict(set)
        self._alone: dict[str, set[int]] = defaultdict(set)
        self._signs: dict[str, set[int]] = defaultdict(set)
        self._parts: dict[str, set[int]] = defaultdict(set)
        self._masked: dict[str, set[int]] = defaultdict(set)
        for number, term in enumerate(self.terms):
            self._add(number, " ".join(skeleton(term).partition("\n")[0].casefold().split()))

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
        if _MASKED_TERM.search(term):
            self._masked[mask(term)].add(number)
            term = _MASKED_TERM.sub("", term)
        if _LEET_IN_TERM.search(term):
            term = as_letters(term)
        words: tuple[str, ...] = tuple(numbered_words_of(term) if has_digit(term) else words_of(term))
        if len(words) > 1:
            self._phrases[words].add(number)
            joined = "".join(words)
            if len(joined) >= _SHORTEST_JOINED_PHRASE or is_hangul(joined):
                self._words[joined].add(number)
        elif len(words[0]) == 1 and not is_hangul(words[0]):
            self._alone[words[0]].add(number)
        else:
            self._words[words[0]].add(number)

    @cached_property
    def _vocabulary(self) -> frozenset[str]:
        """Every word of every term."""
        return frozenset(chain(self._words, *self._phrases))

    @cached_property
    def _forms(self) -> dict[str, list[tuple[str, str]]]:
        """From a form without repeated letters: the form, and the word of a term that it is a form of."""
        made: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for word in self._vocabulary:
            inflected = english.inflect(word) if is_latin(word) else {word}
            for form in arabic.inflect(word) if is_arabic(word) else inflected:
                made[squeeze(form)].append((form, word))
        return dict(made)

    @cached_property
    def _keys(self) -> frozenset[str]:
        return frozenset(self._forms)

    @cached_property
    def _nouns(self) -> frozenset[str]:
        """The words that Korean particles may follow."""
        return frozenset(filter(is_hangul, self._vocabulary))

    @cached_property
    def _needles(self) -> dict[str, str]:
        """The Korean terms with a space before each syllable."""
        return {
            noun: "".join(map(" {}".format, noun))
            for noun in self._nouns & self._words.keys()
            if len(noun) > 1
        }

    @cached_property
    def _noun_heads(self) -> frozenset[str]:
        return frozenset(noun[:2] for noun in self._nouns)

    @cached_property
    def _noun_lengths(self) -> list[int]:
        return sorted(set(map(len, self._nouns)))

    @cached_property
    def _has_arabic(self) -> bool:
        return any(map(is_arabic, self._vocabulary))

    @cached_property
    def _masks(self) -> dict[str, set[int]]:
        """From a word with stars for vowels: the terms. Needs two consonants, or it would be any word."""
        made = {masked: set(numbers) for masked, numbers in self._masked.items()}
        for word, numbers in self._words.items():
            for form in english.inflect(word) if is_latin(word) else ():
                if len((masked := mask(form)).replace("*", "")) > 1:
                    made.setdefault(masked, set()).update(numbers)
        return made

    def _numbers(self, text: Readings) -> Iterator[int]:
        """Yield the numbers of the terms that a text holds, some of them twice; the cheapest ways first."""
        hits = self._hits(text)
        for own in chain.from_iterable(hits.values()):
            yield from self._words.get(own, ())
        for term in self._alone.keys() & text.alone if self._alone else ():
            yield from self._alone[term]
        for sign, numbers in self._signs.items():
            if sign in text.lower:
                yield from numbers
        if self._chinese and (possible := self._possible_chinese(text)):
            for term in chinese.found(text.clauses, possible):
                yield from self._chinese[term]
        if text.masked:
            for masked in self._masks.keys() & text.masked:
                yield from self._masks[masked]
        yield from self._numbers_of_parts(text)
        yield from self._numbers_of_spaced(text)
        if self._phrases:
            yield from self._numbers_of_phrases(text, hits)

    def _possible_chinese(self, text: Readings) -> list[str]:
        """Return the Chinese terms all of whose characters a text holds."""
        pattern = self._chinese_characters
        there = set() if text.lower.isascii() else set(pattern.findall(text.lower))
        return [term for term in self._chinese if there.issuperset(term)] if there else []

    @cached_property
    def _chinese_characters(self) -> re.Pattern[str]:
        return re.compile(f"[{''.join(map(re.escape, sorted(set(chain.from_iterable(self._chinese)))))}]")

    def _hits(self, text: Readings) -> Hits:
        hits: Hits = defaultdict(set)
        common = self._keys & text.keys
        if common:
            for word, key in zip(text.words, text.squeezed, strict=True):
                if key in common:
                    owns = {own for form, own in self._forms[key] if is_stretched(word, form)}
                    hits[word] |= owns
        if self._nouns and text.has_hangul:
            for word in chain(text.words, text.keys):
                if word[:2] in self._noun_heads or word[0] in self._noun_heads:
                    self._add_nouns(hits, word)
        if self._has_arabic and text.has_arabic:
            for word, key in zip(text.words, text.squeezed, strict=True):
                if word[0] in arabic.FIRST_CLITICS:
                    self._add_with_clitics(hits, word, key)
        return hits

    def _add_nouns(self, hits: Hits, word: str) -> None:
        for length in self._noun_lengths:
            noun = word[:length]
            if noun in self._nouns and hangul.is_ending(word[length:], noun):
                hits[word].add(noun)

    def _add_with_clitics(self, hits: Hits, word: str, key: str) -> None:
        for length, clitics in enumerate(arabic.prefixes(), start=1):
            if key[length:] in self._forms and key[:length] in clitics and not arabic.is_whole(word):
                forms = self._forms[key[length:]]
                hits[word] |= {own for form, own in forms if is_stretched_end(word, form)}

    def _numbers_of_parts(self, text: Readings) -> Iterator[int]:
        words = "\n".join(("", *text.words, "")) if self._parts else ""
        for part, numbers in self._parts.items():
            if part in words:
                yield from numbers

    def _numbers_of_spaced(self, text: Readings) -> Iterator[int]:
        """Yield the terms whose syllables stand apart, or that are part of a long run of single letters."""
        if text.syllables:
            for noun, needle in self._needles.items():
                if needle in text.syllables and _stands_apart(noun, needle, text.syllables):
                    yield from self._words[noun]
        runs = "\n".join(run for run in text.runs if len(run) >= 2 * _SHORTEST_INSIDE_RUN)
        for word, numbers in self._words.items() if runs else ():
            if len(word) >= _SHORTEST_INSIDE_RUN and word in runs:
                if any(len(run) >= 2 * len(word) and word in run for run in text.runs):
                    yield from numbers

    def _numbers_of_phrases(self, text: Readings, hits: Hits) -> Iterator[int]:
        there = set().union(*hits.values())
        lengths = {len(phrase) for phrase in self._phrases if there.issuperset(phrase)}
        for sequence in text.sequences if lengths else ():
            for length in lengths:
                neighbours = set(zip(*(sequence[start:] for start in range(length)), strict=False))
                for words in neighbours:
                    if all(word in hits for word in words):
                        for phrase in product(*(hits[word] for word in words)):
                            yield from self._phrases.get(phrase, ())


def _stands_apart(noun: str, needle: str, runs: str) -> bool:
    """Return whether the syllables of a noun stand apart in a run, with a particle after the last."""
    start = runs.find(needle)
    for _ in range(_MOST_PLACES):
        if start < 0:
            return False
        end = start + len(needle)
        if hangul.is_ending(runs[end : runs.find(" ", end)], noun):
            return True
        start = runs.find(needle, end)
    return True


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
