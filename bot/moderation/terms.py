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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, reduce
from itertools import chain, compress
from operator import or_

import numpy as np

from bot.moderation import arabic, chinese, english, hangul
from bot.moderation.characters import skeleton
from bot.moderation.mending import as_letters
from bot.moderation.readings import Readings, mask, of_words, read
from bot.moderation.scripts import (
    Places,
    has_cjk,
    has_digit,
    is_arabic,
    is_hangul,
    is_latin,
    numbered_words_of,
    squeeze,
    words_of,
)
from bot.moderation.stretching import is_stretched, is_stretched_end

_SHAPE_IN_TERM = re.compile(r"[@$€£]|(?<=[a-z])[!|+](?=[a-z])")
_MASK_IN_TERM = re.compile(r"(?<=[a-z])[*#%]+(?=[a-z])")
_FEWEST_CONSONANTS = 2
_SHORTEST_JOINED_PHRASE = 5
_SHORTEST_INSIDE_RUN = 5
_SHORTEST_HALF, _LONGEST_JOINED = 2, 40  # letters of one term, and of two that are written together
_FEW_OF_A_LENGTH = 20  # strings; more of them are looked up among the parts of a text of their length
_EVERY_SCRIPT = "bI1 가ㄱ 中 ع"  # reading it builds the tables of characters, once in a process

Hits = dict[str, set[str]]
"""From a word of a text to the words of the vocabulary that it is a form of."""
Numbers = defaultdict[str, set[int]]
"""From a string that is searched for to the indices of the terms that need it."""
Phrase = tuple[str, ...]
"""The words of a phrase."""


class Vocabulary:
    """Words, each in the forms of its language."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = frozenset(words)
        self._numbered = frozenset(filter(has_digit, self._words))
        self._nouns = frozenset(filter(is_hangul, self._words))
        self._noun_lengths = sorted(set(map(len, self._nouns)))
        self._heads = frozenset(noun[:2] for noun in self._nouns)
        self._has_arabic = any(map(is_arabic, self._words))

    def prepare(self) -> None:
        """Build the tables that searches use."""
        _ = self._keys, self._masks, self.beginnings

    def hits(self, text: Readings) -> Hits:
        """Return the words of a text, in any reading, that are forms of words of the vocabulary."""
        hits: Hits = defaultdict(set)
        common = self._keys & text.keys
        if common:
            there = list(map(common.__contains__, text.squeezed))
            for word, key in zip(compress(text.words, there), compress(text.squeezed, there), strict=True):
                hits[word] |= {own for form, own in self._forms[key] if is_stretched(word, form, key)}
        if self._nouns and text.has_hangul:
            self._add_nouns(hits, text.words)
            self._add_nouns(hits, text.squeezed)
        if self._has_arabic and text.has_arabic:
            words = arabic.with_clitics(text.lines)
            for word, key in zip(words, squeeze("\n".join(words)).split("\n"), strict=bool(words)):
                self._add_with_clitics(hits, word, key)
        if self._numbered and has_digit(text.lower):
            if self._nouns & self._numbered:
                self._add_nouns(hits, [word for word in text.numbered if not word.isalpha()])
            for word in self._words.intersection(text.numbered):
                hits[word].add(word)
        return hits

    def masked(self, text: Readings) -> set[str]:
        """Return the words that a text has with a star or the like for a letter."""
        return {word for key in self._masks.keys() & text.masked for word in self._masks[key]}

    def apart(self, text: Readings) -> set[str]:
        """Return the Korean words whose syllables stand apart in a text, with a particle after the last."""
        return {noun for line in text.syllables.split("\n") for noun in self._apart_in(line.split())}

    def _apart_in(self, run: list[str]) -> Iterator[str]:
        """Yield the nouns in a run of syllables that stand apart; the last may begin a longer word."""
        joined = "".join(syllables[0] for syllables in run)
        for start in range(len(run) - 1):
            for length in self._noun_lengths:
                end = start + length
                if end > len(run):
                    break
                noun = joined[start:end]
                if length > 1 and noun in self._nouns and hangul.is_ending(run[end - 1][1:], noun):
                    yield noun

    @cached_property
    def _forms(self) -> dict[str, list[tuple[str, str]]]:
        """Forms with their words, by the form without repeated letters."""
        made: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for word in self._words:
            for form in _inflect(word):
                made[squeeze(form)].append((form, word))
        return dict(made)

    @cached_property
    def _keys(self) -> frozenset[str]:
        return frozenset(self._forms)

    @cached_property
    def beginnings(self) -> frozenset[str]:
        """The first three letters of all forms, without repeated letters and without clitics."""
        return frozenset(key[:3] for key in self._forms)

    @property
    def most_alike(self) -> int:
        """How many forms differ only in repeated letters, at most.

        Arabic forms count twice, since each is compared with a word also without its clitics.
        """
        counts = (len(forms) * (2 if is_arabic(key) else 1) for key, forms in self._forms.items())
        return max(counts, default=0)

    @cached_property
    def _masks(self) -> dict[str, set[str]]:
        """Words by their forms with stars for vowels, except forms of few consonants, which fit any word."""
        made: dict[str, set[str]] = defaultdict(set)
        for word in filter(is_latin, self._words):
            for form in english.inflect(word):
                if len((masked := mask(form)).replace("*", "")) >= _FEWEST_CONSONANTS:
                    made[masked].add(word)
        return dict(made)

    def _add_nouns(self, hits: Hits, words: Iterable[str]) -> None:
        heads = self._heads
        for word in [word for word in words if word[:2] in heads or word[:1] in heads]:
            for length in self._noun_lengths:
                if length > len(word):
                    break
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


class Needles:
    """Strings that are searched for anywhere in a text."""

    def __init__(self, strings: Iterable[str]) -> None:
        self._strings = frozenset(strings)
        self._lengths = frozenset(map(len, self._strings))

    def within(self, text: str) -> Iterable[str]:
        """Return the strings that a text holds.

        The time is linear in the length of the text and in the number of strings, or of their lengths if that
        is much smaller.
        """
        if len(self._strings) < _FEW_OF_A_LENGTH * len(self._lengths):
            return [string for string in self._strings if string in text]
        there = (text[start : start + length] for length in self._lengths for start in range(len(text)))
        return self._strings.intersection(there)


class Terms:
    """A list of terms, ready to be looked for in any number of texts."""

    def __init__(self, terms: Sequence[str]) -> None:
        self.terms = tuple(terms)
        self._words: Numbers = defaultdict(set)
        self._phrases: defaultdict[Phrase, set[int]] = defaultdict(set)
        self._chinese: Numbers = defaultdict(set)
        self._alone: Numbers = defaultdict(set)
        self._signs: Numbers = defaultdict(set)
        self._parts: Numbers = defaultdict(set)
        self._masked: Numbers = defaultdict(set)
        for number, term in enumerate(self.terms):
            self._add(number, " ".join(skeleton(term).partition("\n")[0].casefold().split()))
        self._vocabulary = Vocabulary(chain(self._words, *self._phrases))
        self._needles = Needles(self._signs)
        self._word_parts = Needles(self._parts)
        self._long_words = Needles(word for word in self._words if len(word) >= _SHORTEST_INSIDE_RUN)

    def prepare(self) -> None:
        """Build the tables for every language: the first search is then as quick as the others."""
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

    @property
    def beginnings(self) -> frozenset[str]:
        """The first three letters of all forms of the words, without repeated letters and without clitics."""
        return self._vocabulary.beginnings

    @property
    def most_alike(self) -> int:
        """How many forms of words differ only in repeated letters, at most; Arabic forms count twice."""
        return self._vocabulary.most_alike

    @property
    def phrase_words(self) -> int:
        """How many words all phrases have together."""
        return sum(map(len, self._phrases))

    def words_of(self, text: Readings) -> set[str]:
        """Return the words of a text that are forms of a term, which may be a phrase without its spaces."""
        hits = self._vocabulary.hits(text)
        return {word for word, own in hits.items() if not own.isdisjoint(self._words)}

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
        if self._signs:
            yield from _numbers_of(self._needles.within(text.lower), self._signs)
        if self._chinese and (possible := self._possible_chinese(text)):
            yield from _numbers_of(chinese.found(text.clauses, possible), self._chinese)
        if text.masked:
            yield from _numbers_of(text.masked, self._masked)
            yield from _numbers_of(self._vocabulary.masked(text), self._words)
        if self._parts:
            words = "\n".join(("", *text.words, ""))
            yield from _numbers_of(self._word_parts.within(words), self._parts)
        if text.syllables:
            yield from _numbers_of(self._vocabulary.apart(text), self._words)
        yield from _numbers_of(self._words_in_runs(text), self._words)
        if self._phrases:
            yield from self._numbers_of_phrases(text, hits)

    def _possible_chinese(self, text: Readings) -> list[str]:
        """Return the Chinese terms whose characters are all in a text."""
        there = set() if text.lower.isascii() else set(self._chinese_character.findall(text.lower))
        return [term for term in self._chinese if there.issuperset(term)] if there else []

    @cached_property
    def _chinese_character(self) -> re.Pattern[str]:
        characters = sorted(set(chain.from_iterable(self._chinese)))
        return re.compile(f"[{''.join(map(re.escape, characters))}]")

    def _words_in_runs(self, text: Readings) -> list[str]:
        """Return the longer words inside long runs of single letters: r e d b l o o d d r o p s."""
        runs = [run for run in text.runs if len(run) >= 2 * _SHORTEST_INSIDE_RUN]
        return [word for run in runs for word in self._long_words.within(run) if len(run) >= 2 * len(word)]

    def _numbers_of_phrases(self, text: Readings, hits: Hits) -> Iterator[int]:
        there = set().union(*hits.values())
        possible = [phrase for phrase in self._phrases if there.issuperset(phrase)]
        if possible:
            for phrase in _phrases_in(text.sequences, possible, hits):
                yield from self._phrases[phrase]


def _phrases_in(
    sequences: Iterable[Sequence[str]], phrases: Sequence[Phrase], hits: Mapping[str, set[str]]
) -> list[Phrase]:
    """Return the phrases that sequences of words hold.

    Each word of a phrase is one bit of `state`: it is set after a word of a sequence that ends the phrase's
    beginning up to this bit (Shift-And). A word costs one step for each 30 words of the phrases.
    """
    asked = list(chain.from_iterable(phrases))
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, word in enumerate(asked):
        places[word].append(place)
    bits = {word: _bits(of_word, len(asked)) for word, of_word in places.items()}
    last = np.cumsum([len(phrase) for phrase in phrases]) - 1
    starts, ends = _bits([0, *(last[:-1] + 1)], len(asked)), _bits(last, len(asked))
    masks = {
        word: reduce(or_, (bits[own] for own in own_words if own in bits), 0)
        for word, own_words in hits.items()
    }
    found = 0
    for sequence in sequences:
        state = 0
        for word in sequence:
            state = (state << 1 | starts) & masks.get(word, 0)
            found |= state & ends
    flags = np.unpackbits(
        np.frombuffer(found.to_bytes(len(asked) // 8 + 1, "little"), np.uint8), bitorder="little"
    )
    return list(compress(phrases, flags[last]))


def _bits(places: Sequence[int] | Places, size: int) -> int:
    """Return the number of `size` bits in which the bits of these places are set."""
    flags = np.zeros(size, np.bool_)
    flags[places] = True
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


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
        self._joints = re.compile(f"(?:{'|'.join(sorted(joints, key=len, reverse=True))})*" if joints else "")
        spaced = [r"[\s-]+".join(map(re.escape, phrase.split())) for phrase in harmless]
        self._harmless = re.compile(rf"\b(?:{'|'.join(spaced)})") if spaced else None

    def prepare(self) -> None:
        """Build the tables for every language."""
        self._first.prepare()
        self._second.prepare()
        _ = self._letters

    def matches(self, text: str | Readings) -> bool:
        """Return whether a text holds a term of each list."""
        readings = _readings(text)
        if not self._hold(readings):
            return False
        left = readings.lower if self._harmless is None else self._harmless.sub(" ", readings.lower)
        return left == readings.lower or self._hold(read(left))

    def _hold(self, text: Readings) -> bool:
        return (self._first.matches(text) and self._second.matches(text)) or self._hold_joined(text)

    @cached_property
    def _beginnings(self) -> frozenset[str]:
        return self._first.beginnings | self._second.beginnings

    @cached_property
    def _letters(self) -> frozenset[str]:
        return frozenset(beginning[0] for beginning in self._beginnings)

    def _hold_joined(self, text: Readings) -> bool:
        """Return whether a word consists of a form of a term of each list, in either order, and joints."""
        words = dict.fromkeys(_words_that_begin(text, self._beginnings))
        halves = {pair for word in words for pair in _divisions(word, self._letters, self._joints)}
        if not halves:
            return False
        parts = of_words(list(dict.fromkeys(chain.from_iterable(halves))))
        first, second = self._first.words_of(parts), self._second.words_of(parts)
        return any(
            (one in first and other in second) or (one in second and other in first) for one, other in halves
        )


def _words_that_begin(text: Readings, beginnings: Collection[str]) -> Iterator[str]:
    """Yield the words of a text that begin as some form does, of at most _LONGEST_JOINED letters.

    A clitic may stand before an Arabic form.
    """
    numbered = [word for word in text.numbered if not word.isalpha()] if has_digit(text.lower) else []
    for word, key in chain(zip(text.words, text.squeezed, strict=True), zip(numbered, numbered, strict=True)):
        if (
            key[:3] in beginnings
            or key[:2] in beginnings
            or (is_arabic(word) and _begins_later(key, beginnings))
        ):
            short = word if len(word) <= _LONGEST_JOINED else key
            if len(short) <= _LONGEST_JOINED:
                yield short


def _begins_later(key: str, beginnings: Collection[str]) -> bool:
    return any(key[start : start + 3] in beginnings for start in range(1, len(arabic.prefixes()) + 1))


def _divisions(word: str, letters: Collection[str], joints: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Yield both halves of a word, with and without joints between them; `letters` begin the second half."""
    arabic_word = is_arabic(word)
    for place in range(_SHORTEST_HALF, len(word) - _SHORTEST_HALF + 1):
        joint = None if arabic_word else joints.match(word, place)
        for start in {place, joint.end() if joint else place}:
            if word[start : start + 1] in letters or arabic_word:
                yield word[:place], word[start:]


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
