"""The words of a list of terms in all their forms, and which words of a text are such forms."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from itertools import compress

from bot.moderation import arabic, english, hangul
from bot.moderation.codes import squeeze
from bot.moderation.readings import Readings, mask
from bot.moderation.scripts import has_digit, is_arabic, is_hangul, is_latin
from bot.moderation.stretching import is_stretched, is_stretched_end

_FEWEST_CONSONANTS = 2
_MOST_PLACES = 64

Hits = dict[str, set[str]]
"""For a word of a text, the words of the vocabulary that it is a form of."""


class Vocabulary:
    """Words, each in the forms of its language."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = frozenset(words)
        self._numbered = frozenset(filter(has_digit, self._words))
        self._nouns = frozenset(filter(is_hangul, self._words))
        self._noun_lengths = sorted(set(map(len, self._nouns)))
        self._has_arabic = any(map(is_arabic, self._words))

    def prepare(self) -> None:
        """Make what the searches need."""
        _ = self._keys, self._masks, self._needles
        if self._nouns:
            _ = self._like_nouns

    def hits(self, text: Readings) -> Hits:
        """Return the words of a text, in any reading, that are forms of words of the vocabulary."""
        hits: Hits = defaultdict(set)
        common = self._keys & text.keys
        if common:
            there = list(map(common.__contains__, text.squeezed))
            for word, key in zip(compress(text.words, there), compress(text.squeezed, there), strict=True):
                hits[word] |= {own for form, own in self._forms[key] if is_stretched(word, form, key)}
        if self._nouns and text.has_hangul:
            self._add_nouns(hits, self._like_nouns.findall(text.lines))
            self._add_nouns(hits, self._like_nouns.findall(text.squeezed_lines))
        if self._has_arabic and text.has_arabic:
            words = arabic.with_clitics(text.lines)
            for word, key in zip(words, squeeze("\n".join(words)).split("\n"), strict=bool(words)):
                self._add_with_clitics(hits, word, key)
        if self._numbered and has_digit(text.lower):
            if self._nouns & self._numbered:
                numbered = (word for word in text.numbered if not word.isalpha())
                self._add_nouns(hits, self._like_nouns.findall("\n".join(("", *numbered))))
            for word in self._numbered.intersection(text.numbered):
                hits[word].add(word)
        return hits

    def masked(self, text: Readings) -> set[str]:
        """Return the words that a text has with a star or the like for a letter."""
        return {word for key in self._masks.keys() & text.masked for word in self._masks[key]}

    def apart(self, text: Readings) -> set[str]:
        """Return the Korean words whose syllables stand apart in a text."""
        runs = text.syllables
        return {
            noun for noun, needle in self._needles if needle in runs and _stands_apart(noun, needle, runs)
        }

    @cached_property
    def _like_nouns(self) -> re.Pattern[str]:
        """Match the words, each after a line break, that begin as a noun begins."""
        heads = "|".join(sorted({re.escape(noun[:2]) for noun in self._nouns}))
        first = "".join(sorted({re.escape(noun[0]) for noun in self._nouns}))
        return re.compile(rf"\n(?=[{first}])((?:{heads}).*)")

    @cached_property
    def _forms(self) -> dict[str, list[tuple[str, str]]]:
        """From a form without repeated letters: the form, and its word."""
        made: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for word in self._words:
            for form in _inflect(word):
                made[squeeze(form)].append((form, word))
        return dict(made)

    @cached_property
    def _keys(self) -> frozenset[str]:
        return frozenset(self._forms)

    @cached_property
    def _masks(self) -> dict[str, set[str]]:
        """From a form with stars for vowels: its words. With fewer consonants it would be any word."""
        made: dict[str, set[str]] = defaultdict(set)
        for word in filter(is_latin, self._words):
            for form in english.inflect(word):
                if len((masked := mask(form)).replace("*", "")) >= _FEWEST_CONSONANTS:
                    made[masked].add(word)
        return dict(made)

    @cached_property
    def _needles(self) -> list[tuple[str, str]]:
        """The Korean words, and each with a space before each syllable."""
        return [(noun, "".join(map(" {}".format, noun))) for noun in self._nouns if len(noun) > 1]

    def _add_nouns(self, hits: Hits, words: Iterable[str]) -> None:
        for word in words:
            for length in self._noun_lengths:
                noun = word[:length]
                if noun in self._nouns and hangul.is_ending(word[length:], noun):
                    hits[word].add(noun)

    def _add_with_clitics(self, hits: Hits, word: str, key: str) -> None:
        for length, clitics in enumerate(arabic.prefixes(), start=1):
            if key[length:] in self._forms and key[:length] in clitics and not arabic.is_whole(word):
                forms = self._forms[key[length:]]
                hits[word] |= {own for form, own in forms if is_stretched_end(word, form)}


def _inflect(word: str) -> Iterable[str]:
    if is_latin(word):
        return english.inflect(word)
    return arabic.inflect(word) if is_arabic(word) else (word,)


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
