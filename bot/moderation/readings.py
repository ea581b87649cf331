"""The ways in which a text can be read: as it stands, mended, with digits as letters, spaced out, masked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from bot.moderation import arabic, chinese, hangul, mending, spacing
from bot.moderation.bounds import beginning_and_end, bound_of
from bot.moderation.characters import skeleton
from bot.moderation.codes import squeeze
from bot.moderation.mending import LONGEST_PIECE
from bot.moderation.scripts import has_digit, numbered_words_of, words_of

_MASKS = "*#%"
_ASCII_MASKED = str.maketrans(
    {chr(code): " " for code in range(128) if not (chr(code).isalpha() or chr(code) in _MASKS)}
)
_STARS = re.compile(r"\*+")
_VOWELS = str.maketrans("aeiou*#%", "********")
_ALONE = re.compile(r"^[^\w\n]*+(\w)[^\w\n]*+$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Readings:
    """A text, made ready for any number of lists of terms."""

    lower: str
    """The skeleton of the text in lower case."""
    near: str
    """The part of it in which hidden spellings are looked for: all of it, but for long texts."""
    plain: list[str]
    """Its words in order."""
    numbered: list[str]
    """Its words with their digits, in order."""
    words: list[str]
    """Every word of every reading, once; none has a digit."""
    squeezed: list[str]
    """The same without repeated letters, in the same order."""
    lines: str
    """The words, with a line break before each."""
    squeezed_lines: str
    """The words without repeated letters, with a line break before each."""
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
    def sequences(self) -> list[list[str]]:
        """The words in order: as they stand, with digits, without inner signs, with digits as letters."""
        mended = words_of(mending.without_signs(mending.without_listing(self.near)))
        shaped = mending.all_words_in_shapes(self.near)
        return [self.plain, *(each for each in (self.numbered, mended, shaped) if each != self.plain)]

    @cached_property
    def alone(self) -> frozenset[str]:
        """Single characters that stand between spaces, without signs around them."""
        chunks = [chunk for chunk in self.near.split() if 1 < len(chunk) <= LONGEST_PIECE]
        signed = "\n".join([chunk for chunk in chunks if not chunk.isalnum()])
        return frozenset([each for each in self.lower.split() if len(each) == 1]).union(
            _ALONE.findall(signed)
        )

    @cached_property
    def clauses(self) -> chinese.Clauses:
        """The text as Chinese."""
        return chinese.read_clauses(self.lower)

    @cached_property
    def syllables(self) -> str:
        """Syllables that stand apart, a line for each run."""
        if not self.has_hangul:
            return ""
        return spacing.spaced_syllables(self.plain if self.near is self.lower else words_of(self.near))

    @cached_property
    def masked(self) -> frozenset[str]:
        """Words with a star or the like for a letter, all vowels as stars: f*ck."""
        if not any(sign in self.near for sign in _MASKS):
            return frozenset()
        pieces = self.near.encode("ascii", "ignore").decode().translate(_ASCII_MASKED).split()
        signed = {piece.rstrip(_MASKS) for piece in pieces if not piece.isalpha() and piece[0] not in _MASKS}
        return frozenset(mask("\n".join(piece for piece in signed if not piece.isalpha())).split())


def mask(words: str) -> str:
    """Return words, each with one star for each run of vowels."""
    return _STARS.sub("*", squeeze(words.translate(_VOWELS)))


def read(text: str) -> Readings:
    """Return the readings of a text, in time linear in its length."""
    cased = skeleton(text)
    near_cased = beginning_and_end(cased, bound_of(text))
    lower = near = hangul.without_blooming(cased.casefold())
    if near_cased is not cased:
        near = hangul.without_blooming(near_cased.casefold())
    plain = numbered = words_of(lower)
    words = [*plain, *spacing.words_in_pieces(near)]
    signed = "\n".join(dict.fromkeys([chunk for chunk in near_cased.split() if not chunk.isalpha()]))
    if signed:
        folded = signed.casefold()
        words += mending.mended_words(folded)
        model_numbers: frozenset[str] = frozenset()
        if has_digit(signed):
            numbered = numbered_words_of(lower)
            model_numbers = _model_numbers(signed)
        words += mending.words_in_shapes(folded, model_numbers)
    runs = spacing.spaced_runs(near, numbered if near is lower else numbered_words_of(near))
    words += spacing.words_of_runs(runs)
    once = list(dict.fromkeys(words))
    lines = "\n".join(("", *once))
    squeezed_lines = squeeze(lines)
    return Readings(
        lower=lower,
        near=near,
        plain=plain,
        numbered=numbered,
        words=once,
        squeezed=squeezed_lines.split("\n")[1:],
        runs=runs,
        lines=lines,
        squeezed_lines=squeezed_lines,
    )


def _model_numbers(cased: str) -> frozenset[str]:
    """Return A55, F16 and the like, in lower case."""
    words = numbered_words_of(cased.encode("ascii", "ignore").decode())
    numbered = (word for word in words if word[-1].isdigit())
    return frozenset(word.casefold() for word in numbered if word[0].isupper() and word[1:].isdigit())
