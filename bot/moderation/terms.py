"""A list of terms made ready, the search for them in the readings of a text, and the rule that always holds.

A term is one of these:

    blood, 피, دم          a word, in its forms and at its boundaries; Han and kana anywhere
    dead body              a phrase: its words one after the other, whatever stands between them
    blood*, *blood*        the beginning of a word, its end (*blood), or any part of it; as it is spelled
    x, 69                  one letter, or digits: standing alone
    💉, ><, ㅅㅂ            signs or jamo only: anywhere, as they are

A word of a text is looked up in one dictionary of the forms of all terms: whole, after clitics, or before
a particle. Phrases are looked up by their first word. The time of a search is linear in the length of the
text, and depends on the terms by how many of their forms are alike.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache, reduce
from itertools import accumulate, chain
from operator import or_
from typing import Any

import numpy as np

from bot.moderation.languages import arabic, chinese, english, korean, language_of
from bot.moderation.letters import (
    has_cjk,
    is_arabic,
    is_hangul,
    is_latin,
    is_stretched,
    runs_of,
    skeleton,
    squeeze,
    words_of,
)
from bot.moderation.readings import Readings, mask, of_words, read
from bot.moderation.tables import read_lists

_MASK_IN_TERM = re.compile(r"(?<=[a-z])[*#%]+(?=[a-z])")
_FEWEST_CONSONANTS = 2
_SHORTEST_JOINED_PHRASE = 5
_FEW_OF_A_LENGTH = 50  # strings; more of them are looked up among the parts of a text of their length
_EVERY_SCRIPT = "b1 가ㄱ 中 ع é"  # reading it builds the tables of characters, once in a process

Hits = dict[str, set[str]]
"""From a word of a text to the words of terms that it is a form of."""
Phrase = tuple[str, ...]
"""The words of a phrase."""
_LANGUAGES = ("en", "ko", "zh", "ar")
_SHORTEST_HALF, _LONGEST_JOINED = 2, 40  # letters of one term, and of two that are written together


class Terms:
    """A list of terms, ready to be looked for in any number of texts."""

    def __init__(self, terms: Sequence[str]) -> None:
        self.terms = tuple(terms)
        # From what is searched for to the indices of the terms that need it.
        self._words, self._alone, self._signs, self._parts, self._masked, self._chinese = (
            defaultdict[str, set[int]](set) for _ in range(6)
        )
        self._phrases = defaultdict[Phrase, set[int]](set)
        for number, term in enumerate(self.terms):
            self._add_term(number, " ".join(skeleton(term).casefold().split()))

    def prepare(self) -> None:
        """Build the tables for every language: the first search is then as quick as the others."""
        read(_EVERY_SCRIPT)
        _ = self._lengths, self._by_first_word, self._masks, self.beginnings

    def matches(self, text: str | Readings) -> bool:
        """Return whether a text holds any of the terms."""
        return next(self._numbers(read(text) if isinstance(text, str) else text), None) is not None

    def find_all(self, text: str | Readings) -> list[str]:
        """Return every term that a text holds, in the order of the list."""
        numbers = set(self._numbers(read(text) if isinstance(text, str) else text))
        return [self.terms[number] for number in sorted(numbers)]

    def words_of(self, text: Readings) -> set[str]:
        """Return the words of a text that are forms of a term, which may be a phrase without its spaces."""
        return {word for word, own in self._hits(text).items() if not own.isdisjoint(self._words)}

    @cached_property
    def beginnings(self) -> frozenset[str]:
        """The first three letters of all forms of the words, without repeated letters and without clitics."""
        return frozenset(key[:3] for key in self._forms)

    @property
    def most_alike(self) -> int:
        """How many forms of words differ only in repeated letters, at most.

        Arabic forms count twice, since each is compared with a word also without its clitics.
        """
        counts = (len(forms) * (2 if is_arabic(key) else 1) for key, forms in self._forms.items())
        return max(counts, default=0)

    @property
    def phrase_words(self) -> int:
        """How many words all phrases have together."""
        return sum(map(len, self._phrases))

    def _add_term(self, number: int, term: str) -> None:
        """Put one term, in its skeleton, among those that are looked for in the same way."""
        if has_cjk(term):
            for form in chinese.forms(term):
                self._chinese[form].add(number)
        elif (part := term.strip("*")) != term and words_of(part, digits=True) == [part]:
            start, end = "" if term[0] == "*" else "\n", "" if term[-1] == "*" else "\n"
            self._parts[f"{start}{part}{end}"].add(number)
        else:
            if _MASK_IN_TERM.search(term):
                self._masked[mask(term)].add(number)
                term = _MASK_IN_TERM.sub("", term)
            self._add_words(number, term)

    def _add_words(self, number: int, term: str) -> None:
        jamo = korean.has_jamo(term)
        spelled = korean.composed(term) if jamo else english.without_shapes(term)
        words = tuple(words_of(spelled, digits=True))
        joined = "".join(words)
        if len(words) > 1:
            self._phrases[words].add(number)
        if not words and term:
            self._signs[term].add(number)
        elif len(joined) == 1 and not is_hangul(joined):
            self._alone[joined].add(number)
        elif len(words) == 1 or len(joined) >= _SHORTEST_JOINED_PHRASE or is_hangul(joined):
            self._words[joined].add(number)

    @cached_property
    def _vocabulary(self) -> frozenset[str]:
        return frozenset(chain(self._words, *self._phrases))

    @cached_property
    def _forms(self) -> dict[str, list[tuple[str, str]]]:
        """Forms with their words, by the form without repeated letters."""
        made: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for word in self._vocabulary:
            for form in language_of(word).forms(word):
                made[squeeze(form)].append((form, word))
        return dict(made)

    @cached_property
    def _lengths(self) -> dict[str, list[int]]:
        """How many letters the forms have that begin with the same two, without repeated letters."""
        made: dict[str, set[int]] = defaultdict(set)
        for key in self._forms:
            made[key[:2]].add(len(key))
        return {head: sorted(lengths) for head, lengths in made.items()}

    @cached_property
    def _by_first_word(self) -> dict[str, list[Phrase]]:
        made: dict[str, list[Phrase]] = defaultdict(list)
        for phrase in self._phrases:
            made[phrase[0]].append(phrase)
        return dict(made)

    @cached_property
    def _masks(self) -> dict[str, set[str]]:
        """Words by their forms with stars for vowels, except forms of few consonants, which fit any word."""
        made: dict[str, set[str]] = defaultdict(set)
        for word in filter(is_latin, self._vocabulary):
            for form in english.forms(word):
                if len((masked := mask(form)).replace("*", "")) >= _FEWEST_CONSONANTS:
                    made[masked].add(word)
        return dict(made)

    def _numbers(self, text: Readings) -> Iterator[int]:
        """Yield the numbers of the terms that a text holds, some of them twice."""
        hits = self._hits(text)
        yield from _numbers_of(chain.from_iterable(hits.values()), self._words)
        if any(sign in text.lower for sign in self._alone):
            yield from _numbers_of(text.alone, self._alone)
        if self._signs:
            yield from _numbers_of(_within(text.lower, self._signs), self._signs)
        for clauses in text.clauses if self._chinese else ():
            found = (term for term in _within(clauses, self._chinese) if _stands(term, clauses))
            yield from _numbers_of(found, self._chinese)
        if text.masked:
            yield from _numbers_of(text.masked, self._masked)
            masked = (self._masks[key] for key in self._masks.keys() & text.masked)
            yield from _numbers_of(chain.from_iterable(masked), self._words)
        if self._parts:
            yield from _numbers_of(_within("\n".join(("", *text.words, "")), self._parts), self._parts)
        there = frozenset(chain.from_iterable(hits.values())) if self._phrases else frozenset()
        begun = chain.from_iterable(self._by_first_word.get(word, ()) for word in there)
        if possible := [phrase for phrase in begun if there.issuperset(phrase)]:
            yield from _numbers_of(_phrases_in(text.sequences, possible, hits), self._phrases)

    def _hits(self, text: Readings) -> Hits:
        """Return the words of a text, in any reading, that are forms of words of terms."""
        hits: Hits = defaultdict(set)
        forms, heads = self._forms, self._lengths
        for word, key in zip(text.words, text.keys, strict=True):
            if key.isascii():
                if key in forms:
                    self._add(hits, word, key, 0, len(key))
            elif key[:2] in heads or key[:1] in heads or key[0] in arabic.BEFORE:
                self._add_parts(hits, word, key)
                if word != key and is_hangul(word):  # the end of a noun may be that of its particle: 살인인
                    self._add_parts(hits, word, word)
        return hits

    def _add_parts(self, hits: Hits, word: str, key: str) -> None:
        """Add the words of which a form is a part of a word of a text: before a particle, after clitics."""
        language = language_of(key)
        if language is arabic:
            places = [(start, len(key)) for start in range(arabic.LATEST_START + 1)]
        else:
            lengths = chain(self._lengths.get(key[:2], ()), self._lengths.get(key[:1], ()))
            places = [(0, length) for length in lengths if length <= len(key)]
        for start, end in places:
            if key[start:end] in self._forms and not language.is_part_of_other(key, start, end):
                self._add(hits, word, key, start, end)

    def _add(self, hits: Hits, word: str, key: str, start: int, end: int) -> None:
        """Add the words whose form a word of a text has there; `key` is how it is looked up."""
        runs = list(key) if word == key else runs_of(word)
        found = "".join(runs[start:end])
        hits[word].update(own for form, own in self._forms[key[start:end]] if is_stretched(found, form))


def _numbers_of(found: Iterable[object], numbers: Mapping[Any, set[int]]) -> Iterator[int]:
    for each in found:
        yield from numbers.get(each, ())


def _within(text: str, strings: Mapping[str, object]) -> Iterable[str]:
    """Return the strings that a text holds.

    The time is linear in the length of the text and in the number of strings, or of their lengths if that is
    much smaller.
    """
    lengths = set(map(len, strings))
    if len(strings) < _FEW_OF_A_LENGTH * len(lengths):
        return [string for string in strings if string in text]
    parts = (text[start : start + length] for length in lengths for start in range(len(text)))
    return frozenset(strings).intersection(parts)


def _stands(term: str, clauses: str) -> bool:
    """Return whether a term stands anywhere in clauses and not for a part of other words."""
    seen: set[tuple[str, int]] = set()  # what stands around matches for other words: a text may repeat it
    start = clauses.find(term)
    while start >= 0:
        end = start + len(term)
        around = clauses[max(0, start - chinese.LONGEST_WORD) : end + chinese.LONGEST_WORD]
        place = (around, min(start, chinese.LONGEST_WORD))
        if place not in seen and not chinese.is_part_of_other(clauses, start, end):
            return True
        seen.add(place)
        start = clauses.find(term, start + 1)
    return False


def _phrases_in(
    sequences: Iterable[Sequence[str]], phrases: Sequence[Phrase], hits: Mapping[str, set[str]]
) -> Iterator[Phrase]:
    """Yield the phrases that sequences of words hold.

    Each word of a phrase is one bit of `state`: it is set after a word of a sequence that ends the phrase's
    beginning up to this bit (Shift-And). A word costs one step for each 30 words of the phrases.
    """
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, word in enumerate(chain.from_iterable(phrases)):
        places[word].append(place)
    ends = [*accumulate(map(len, phrases))]
    size = ends[-1]
    bits = {word: _bits(of_word, size) for word, of_word in places.items()}
    starts = _bits([0, *ends[:-1]], size)
    masks = {
        word: reduce(or_, (bits.get(own, 0) for own in own_words), 0) for word, own_words in hits.items()
    }
    found = 0
    for sequence in sequences:
        state = 0
        for word in sequence:
            state = (state << 1 | starts) & masks.get(word, 0)
            found |= state
    flags = f"{found:0{size}b}"
    yield from (phrase for phrase, end in zip(phrases, ends, strict=True) if flags[-end] == "1")


def _bits(places: list[int], size: int) -> int:
    """Return the number of `size` bits in which the bits of these places are set."""
    flags = np.zeros(size, np.bool_)
    flags[places] = True
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


@lru_cache(maxsize=256)
def _compiled(terms: tuple[str, ...]) -> Terms:
    return Terms(terms)


def matches(text: str, terms: Sequence[str]) -> bool:
    """Return whether a text holds any of the terms, also where people try to hide them."""
    return _compiled(tuple(terms)).matches(text)


def find_all(text: str, terms: Sequence[str]) -> list[str]:
    """Return all of the terms that a text holds, in their order."""
    return _compiled(tuple(terms)).find_all(text)


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
