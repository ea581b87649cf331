"""The ways in which a text can be read: as it stands, mended, with digits as letters, spaced out, masked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from bot.moderation import arabic, chinese, hangul, mending, spacing
from bot.moderation.characters import skeleton
from bot.moderation.scripts import NUMBERED_WORD, has_cjk, has_digit, words_of
from bot.moderation.stretching import squeeze

_MASKED = re.compile(r"(?<![^\W_])(?<![*#%])[a-z]++(?:[*#%]++[a-z]++)++")
_STARS = re.compile(r"\*+")
_VOWELS = str.maketrans("aeiou*#%", "********")
_ALONE = re.compile(r"(?<!\S)[^\w\s]*+(\w++)[^\w\s]*+(?!\S)")
_ARABIC_DIGIT = re.compile("[\u0660-\u0669\u06f0-\u06f9]")


@dataclass(frozen=True, kw_only=True)
class Readings:
    """A text, made ready for any number of lists of terms."""

    lower: str
    """The skeleton of the text in lower case."""
    plain: list[str]
    """Its words in order."""
    words: list[str]
    """Every word of every reading, once."""
    squeezed: list[str]
    """The same without repeated letters, in the same order."""
    runs: list[str]
    """Single letters that stand apart, joined."""

    @cached_property
    def keys(self) -> frozenset[str]:
        """The words without repeated letters."""
        return frozenset(self.squeezed)

    @cached_property
    def has_hangul(self) -> bool:
        """Whether it has syllables."""
        return hangul.has_hangul(self.lower)

    @cached_property
    def has_arabic(self) -> bool:
        """Whether it has Arabic letters."""
        return arabic.has_letters(self.lower)

    @cached_property
    def sequences(self) -> tuple[list[str], ...]:
        """The words in order: as they stand, with digits, without inner signs, with digits as letters."""
        mended = words_of(mending.without_signs(mending.without_listing(self.lower)))
        shaped = mending.words_with_shapes(self.lower, unlisted=False)
        return self.plain, _numbered(self.lower), mended, shaped

    @cached_property
    def alone(self) -> frozenset[str]:
        """What stands between spaces, without signs around it."""
        return frozenset(_ALONE.findall(self.lower))

    @cached_property
    def clauses(self) -> chinese.Clauses | None:
        """The text as Chinese; None where it has no Han."""
        return chinese.read_clauses(self.lower) if has_cjk(self.lower) else None

    @cached_property
    def syllables(self) -> str:
        """Syllables that stand apart, a line for each run."""
        return spacing.spaced_syllables(self.lower) if self.has_hangul else ""

    @cached_property
    def masked(self) -> frozenset[str]:
        """Words with a star or the like for a letter, all vowels as stars: f*ck."""
        if not any(sign in self.lower for sign in "*#%"):
            return frozenset()
        return frozenset(map(mask, set(_MASKED.findall(self.lower))))


def mask(word: str) -> str:
    """Return a word with one star for each run of vowels."""
    return _STARS.sub("*", squeeze(word.translate(_VOWELS)))


def read(text: str) -> Readings:
    """Return the readings of a text, in time linear in its length."""
    cased = skeleton(text)
    lower = hangul.without_blooming(cased.casefold())
    plain = words_of(lower)
    runs = spacing.spaced_runs(lower)
    words = [*plain, *mending.mended_words(cased), *spacing.words_of_runs(runs), *spacing.words_in_pieces(lower)]
    if has_digit(lower):
        words += _numbered(lower)
    once = list(dict.fromkeys(words))
    squeezed = squeeze("\n".join(once)).split("\n")
    return Readings(lower=lower, plain=plain, words=once, squeezed=squeezed, runs=runs)


def _numbered(lower: str) -> list[str]:
    """Return the words with their digits, in order."""
    text = lower.translate(arabic.DIGITS) if _ARABIC_DIGIT.search(lower) else lower
    found: list[str] = NUMBERED_WORD.findall(text)
    return found
