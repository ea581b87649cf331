"""The ways in which a text can be read: as it stands, mended, with digits as letters, spaced out, masked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from bot.moderation import arabic, chinese, hangul, mending
from bot.moderation.bounds import LONGEST_SENT, beginning_and_end, bound_of
from bot.moderation.characters import skeleton
from bot.moderation.display import with_displayed
from bot.moderation.mending import LONGEST_PIECE, as_letters, as_letters_with_l
from bot.moderation.scripts import ARABIC, HANGUL, has_digit, numbered_words_of, squeeze, words_of

_MASKS = "*#%"
_ASCII_MASKED = str.maketrans(
    {chr(code): " " for code in range(128) if not (chr(code).isalpha() or chr(code) in _MASKS)}
)
_STARS = re.compile(r"\*+")
_VOWELS = str.maketrans("aeiou*#%", "********")
_ALONE = re.compile(r"^[^\w\n]*+(\w)[^\w\n]*+$", re.MULTILINE)

_AROUND_WORDS = ',.;:!?()[]{}<>"/\\*_~`|。、'
_SPACED = re.compile(r" \S(?: \S)+(?= )")
_BEFORE = ("a", "i", "و")
_SYLLABLES = re.compile(rf" [{HANGUL}] (?:[{HANGUL}] )*+[{HANGUL}]*+")

_SHORT_WORDS = (
    "ad|am|an|as|at|be|by|do|dr|ex|go|he|hi|if|in|is|it|la|le|me|mr|ms|my|no|of|oh|ok|on|or|pm|re|so|st|to|tv|uk|up|us|vs|we"
    "|من|في|لا|ما|هو|هي|عن|او|ان|كل|قد|لم|لن|يا|بل|ثم|مع|اذ"
)
_PIECE = rf" (?:[a-z{ARABIC}](?= )|(?!(?:{_SHORT_WORDS}) )[a-z{ARABIC}]{{2}}(?= ))"
_PIECES = re.compile(rf"{_PIECE}(?:{_PIECE}){{2,}}")
_FIRST_LETTER_APART = re.compile(r" ([b-hj-z]) (?=([a-z]{2,}) )")
_LAST_LETTER_APART = re.compile(r" ([a-z]{2,}) ([b-hj-z])(?= )")


@dataclass(frozen=True, kw_only=True)
class Readings:
    """A text, made ready for any number of lists of terms."""

    lower: str
    """The skeleton of the text in lower case."""
    near: str
    """The part of `lower` in which hidden spellings are searched for: all of it, except in long texts."""
    plain: list[str]
    """The words of `lower`, in order."""
    numbered: list[str]
    """The words of `lower` with their digits, in order."""
    words: list[str]
    """Every word of every reading, once; none has a digit."""
    squeezed: list[str]
    """The words without repeated letters, in the same order."""
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
        return not self.lower.isascii() and hangul.has_hangul(self.lower)

    @cached_property
    def has_arabic(self) -> bool:
        """Whether it has Arabic letters."""
        return not self.lower.isascii() and arabic.has_letters(self.lower)

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
        """The clauses of the text, for Chinese terms."""
        return chinese.read_clauses(self.lower)

    @cached_property
    def syllables(self) -> str:
        """Syllables that stand apart, a line for each run."""
        if not self.has_hangul:
            return ""
        return spaced_syllables(self.plain if self.near is self.lower else words_of(self.near))

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
    most = None if len(text) <= LONGEST_SENT else bound_of(text)
    if "&" in text or not text.isascii():
        text = with_displayed(text)
    # The only ASCII letter that looks like another is the capital I.
    cased = text if text.isascii() and "I" not in text else skeleton(text, most)
    near_cased = cased if most is None else beginning_and_end(cased, most)
    lower = near = _folded(cased)
    if near_cased is not cased:
        near = _folded(near_cased)
    plain = words_of(lower)
    numbered = numbered_words_of(lower) if has_digit(lower) else plain
    words = [*plain, *words_in_pieces(near)]
    signed = "\n".join(dict.fromkeys([chunk for chunk in near_cased.split() if not chunk.isalpha()]))
    if signed:
        folded = signed.casefold()
        words += mending.mended_words(folded)
        model_numbers = _model_numbers(signed) if has_digit(signed) else frozenset()
        words += mending.words_in_shapes(folded, model_numbers)
    runs = spaced_runs(numbered if near is lower else numbered_words_of(near))
    words += words_of_runs(runs)
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


def of_words(words: list[str]) -> Readings:
    """Return readings of a text that has only these words, each as it is spelled."""
    plain = [word for word in words if not has_digit(word)]
    lines = "\n".join(("", *plain))
    squeezed_lines = squeeze(lines)
    return Readings(
        lower="\n".join(words),
        near="",
        plain=plain,
        numbered=words,
        words=plain,
        squeezed=squeezed_lines.split("\n")[1:],
        runs=[],
        lines=lines,
        squeezed_lines=squeezed_lines,
    )


def _folded(cased: str) -> str:
    lower = cased.casefold()
    return lower if lower.isascii() else hangul.without_blooming(lower)


def _model_numbers(cased: str) -> frozenset[str]:
    """Return A55, F16 and the like, in lower case."""
    words = numbered_words_of(cased.encode("ascii", "ignore").decode())
    numbered = (word for word in words if word[-1].isdigit())
    return frozenset(word.casefold() for word in numbered if word[0].isupper() and word[1:].isdigit())


def spaced_runs(words: list[str]) -> list[str]:
    """Return the runs of single letters, joined: b l o o d, b . l . o . o . d."""
    runs = _SPACED.findall(f" {' '.join(words)} ")
    return "\n".join(runs).replace(" ", "").split("\n") if runs else []


def spaced_syllables(words: list[str]) -> str:
    """Return the syllables that stand alone, and the word after them; a line for each run."""
    return " \n".join((*_SYLLABLES.findall(f" {' '.join(words)} "), ""))


def words_of_runs(runs: list[str]) -> list[str]:
    """Return the words that runs of letters spell, also without an article, and with digits as letters."""
    made = [*runs, *[run[1:] for run in runs if run.startswith(_BEFORE)]]
    numbered = [run for run in made if not run.isalpha()]
    if numbered:
        joined = "\n".join(numbered)
        made += f"{as_letters(joined)}\n{as_letters_with_l(joined)}".split("\n")
    return made


def words_in_pieces(lower: str) -> list[str]:
    """Return the words that spaces split: one letter apart (b lood), or pieces of two letters (bl oo d)."""
    chunks = lower.split()
    if any(sign in lower for sign in _AROUND_WORDS):
        chunks = [chunk.strip(_AROUND_WORDS) for chunk in chunks]
    text = f" {' '.join(chunks)} "
    made = [run.replace(" ", "") for run in _PIECES.findall(text)]
    made += [run[1:] for run in made if run.startswith(_BEFORE)]
    made += [first + rest for first, rest in _FIRST_LETTER_APART.findall(text)]
    return made + [rest + last for rest, last in _LAST_LETTER_APART.findall(text)]
