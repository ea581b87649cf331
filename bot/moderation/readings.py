"""The ways in which a text can be read: as it stands, without signs, by language, letters joined, masked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from string import punctuation

from bot.moderation.display import displayed
from bot.moderation.languages import ALPHABETIC, chinese, english
from bot.moderation.letters import has_digit, skeleton, squeeze, without_signs, words_of

LONGEST_SENT = 2_000
"""The most characters that a person can send; a longer text is read in every way at both ends only."""
_END = 500  # characters
_CAPITAL_I, _KEPT_I = re.compile("(?<=[a-z])I+"), "\x7f"
_SPACED = re.compile(r" \S(?: \S)+(?= )")
_WIDER_GAP = re.compile(r"(?<=\S \S)(?<!\S\S \S)(?:\s{2,}|\n)(?=\S \S(?!\S))")  # n u d e  w o m a n
_BEFORE = ("a", "i", "و")  # words of one letter, which may stand before letters apart
_MASKED = re.compile(r"(?<![a-z])[a-z]+(?:[*#%]+[a-z]+)+")
_VOWEL_OR_MASK = re.compile(r"[aeiou*#%]+")


@dataclass(frozen=True, kw_only=True)
class Readings:
    """A text, made ready for any number of lists of terms."""

    lower: str
    """The skeleton of the text in lower case; only an I that may be a small L is a capital: bIood."""
    hidden: str
    """The part of `lower` that is read in every way: all of it, or both ends of a long text."""
    sequences: Sequence[Sequence[str]]
    """The words in order: as they stand, with digits, without inner signs, as languages read them, joined."""
    words: Sequence[str]
    """Every word of every reading, once."""
    keys: Sequence[str]
    """The words without repeated letters, in the same order."""

    @cached_property
    def alone(self) -> frozenset[str]:
        """Single characters that stand between spaces, without signs around them."""
        return frozenset(piece for each in self.lower.split() if len(piece := each.strip(punctuation)) == 1)

    @cached_property
    def clauses(self) -> list[str]:
        """The versions of the text in which Chinese terms are searched for."""
        return chinese.words(self.lower)

    @cached_property
    def masked(self) -> frozenset[str]:
        """Words with a star or the like for a letter, all vowels as stars: f*ck."""
        return frozenset(map(mask, _MASKED.findall(self.hidden)))


def mask(word: str) -> str:
    """Return a word with one star for each run of vowels and stars."""
    return _VOWEL_OR_MASK.sub("*", word)


def read(text: str) -> Readings:
    """Return the readings of a text, in time linear in its length."""
    texts = displayed(text) if "&" in text or not text.isascii() else [text]
    lowers = list(map(_lower, texts))
    hidden = [each if len(each) <= LONGEST_SENT else _both_ends(each) for each in lowers]
    pairs = zip(lowers, hidden, strict=True)
    sequences = [words for lower, part in pairs for words in _sequences(lower, part) if words]
    return _readings("\n".join(lowers), "\n".join(hidden), sequences)


def of_words(words: Sequence[str]) -> Readings:
    """Return readings of a text that has only these words, each as it is spelled."""
    return _readings("\n".join(words), "", [words])


def _readings(lower: str, hidden: str, sequences: Sequence[Sequence[str]]) -> Readings:
    words = list(dict.fromkeys(chain.from_iterable(sequences)))
    keys = squeeze("\n".join(words)).split("\n") if words else []
    return Readings(lower=lower, hidden=hidden, sequences=sequences, words=words, keys=keys)


def _lower(text: str) -> str:
    """Return the skeleton in lower case, but for a capital I after a small letter, which may be a small L."""
    cased = skeleton(text)
    if "I" not in cased:
        return cased.casefold()
    kept = _CAPITAL_I.sub(lambda found: _KEPT_I * len(found[0]), cased)
    return kept.casefold().replace(_KEPT_I, "I")


def _both_ends(text: str) -> str:
    """Return the whole words of the beginning and of the end of a text."""
    return " ".join((*text[:_END].split()[:-1], "\n", *text[-_END:].split()[1:]))


def _sequences(lower: str, hidden: str) -> Iterator[list[str]]:
    """Yield the words of a text in order, in each reading; the other ones are those of its `hidden` part."""
    yield words_of(lower)
    if has_digit(lower):
        yield words_of(lower, digits=True)
    yield words_of(without_signs(hidden))
    for language in ALPHABETIC:
        yield language.words(hidden)
    yield _joined(hidden)


def _joined(text: str) -> list[str]:
    """Return the words in order, where single letters spell one, and then these words in other ways.

    b l o o d and b.l.o.o.d are one word, also without an article before it, and b.l.0.0.d with letters.
    """
    words = words_of(_WIDER_GAP.sub(" 00 ", text), digits=True)  # a word of two letters ends a run
    spaced = f" {' '.join(words)} "
    runs = _SPACED.findall(spaced)
    if not runs:
        return []
    whole = _SPACED.sub(lambda run: f" {run[0].replace(' ', '')}", spaced).replace(" 00 ", " ").split()
    made = "\n".join(runs).replace(" ", "").split("\n")
    made += [run[1:] for run in made if run.startswith(_BEFORE)]
    return whole + made + english.words(" ".join(made))
