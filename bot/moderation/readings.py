"""The ways in which a text can be read: as it stands, mended, with digits as letters, spaced out, masked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from bot.moderation import arabic, chinese, hangul, mending, spacing
from bot.moderation.characters import skeleton
from bot.moderation.scripts import has_digit, numbered_words_of, words_of
from bot.moderation.stretching import squeeze

_MASKS = "*#%"
_ASCII_MASKED = str.maketrans(
    {chr(code): " " for code in range(128) if not (chr(code).isalpha() or chr(code) in _MASKS)}
)
_STARS = re.compile(r"\*+")
_VOWELS = str.maketrans("aeiou*#%", "********")
_ALONE = re.compile(r"(?<!\S)[^\w\s]*+(\w++)[^\w\s]*+(?!\S)")


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

    @property
    def sequences(self) -> Iterator[list[str]]:
        """The words in order: as they stand, with digits, without inner signs, with digits as letters."""
        yield self.plain
        if (numbered := numbered_words_of(self.lower)) != self.plain:
            yield numbered
        mended = words_of(mending.without_signs(mending.without_listing(self.lower)))
        if mended != self.plain:
            yield mended
        shaped = mending.all_words_in_shapes(self.lower)
        if shaped != self.plain:
            yield shaped

    @cached_property
    def alone(self) -> frozenset[str]:
        """What stands between spaces, without signs around it."""
        return frozenset(_ALONE.findall(self.lower))

    @cached_property
    def clauses(self) -> chinese.Clauses:
        """The text as Chinese."""
        return chinese.read_clauses(self.lower)

    @cached_property
    def syllables(self) -> str:
        """Syllables that stand apart, a line for each run."""
        return spacing.spaced_syllables(self.plain) if self.has_hangul else ""

    @cached_property
    def masked(self) -> frozenset[str]:
        """Words with a star or the like for a letter, all vowels as stars: f*ck."""
        if not any(sign in self.lower for sign in _MASKS):
            return frozenset()
        pieces = self.lower.encode("ascii", "ignore").decode().translate(_ASCII_MASKED).split()
        signed = {piece.rstrip(_MASKS) for piece in pieces if not piece.isalpha() and piece[0] not in _MASKS}
        return frozenset(mask(piece) for piece in signed if not piece.isalpha())


def mask(word: str) -> str:
    """Return a word with one star for each run of vowels."""
    return _STARS.sub("*", squeeze(word.translate(_VOWELS)))


def read(text: str) -> Readings:
    """Return the readings of a text, in time linear in its length."""
    cased = skeleton(text)
    lower = hangul.without_blooming(cased.casefold())
    plain = words_of(lower)
    words = [*plain, *spacing.words_in_pieces(lower)]
    signed = "\n".join(dict.fromkeys([chunk for chunk in cased.split() if not chunk.isalpha()]))
    numbered = plain
    if signed:
        words += mending.mended_words(signed.casefold())
        if has_digit(signed):
            numbered = numbered_words_of(lower)
            words += [word for word in numbered if not word.isalpha()]
            signed = mending.without_model_numbers(signed)
        words += mending.words_in_shapes(signed.casefold())
    runs = spacing.spaced_runs(lower, numbered)
    words += spacing.words_of_runs(runs)
    once = list(dict.fromkeys(words))
    squeezed = squeeze("\n".join(once)).split("\n")
    return Readings(lower=lower, plain=plain, words=once, squeezed=squeezed, runs=runs)
