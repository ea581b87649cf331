"""The ways in which a text can be read: as it stands, mended, with digits as letters, spaced out, masked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from bot.moderation import arabic, chinese, english, hangul
from bot.moderation.characters import signs, skeleton
from bot.moderation.scripts import ARABIC, CJK, HANGUL, NUMBERED_WORD, WORD, has_cjk, has_digit
from bot.moderation.stretching import squeeze

_LISTING = ",;:()[]{}<>\"/\\。、"
_TO_SPACES = str.maketrans(dict.fromkeys(_LISTING, " "))
_LETTERLESS = re.compile(r"(?:[^\w\s]|[\d_])+")
_ASCII_LETTERLESS = str.maketrans(
    {chr(code): "" for code in range(128) if not chr(code).isalpha() and not chr(code).isspace()}
)

_SIGNED = re.compile(r"(?<!\S)[^\W\d_]*+\S\S*")
_INNER_SIGN = re.compile(r"[^\W\d_](?:[^\w\s]|[\d_])+[^\W\d_]")
_LATIN = re.compile(r"[a-z]")
_ARABIC_DIGIT = re.compile("[\u0660-\u0669\u06f0-\u06f9]")
_MODEL_NUMBER = re.compile(r"(?<![^\W_])[A-Z]\d+(?![^\W_])")
_SHOUTING = re.compile(r"(?<![!?])[!?]++(?!\S)")
_WITH_LATIN = re.compile(r"(?<!\S)[^\sa-z]*+[a-z]\S*")
_WITH_ARABIC = re.compile(rf"(?<!\S)[^\s{ARABIC}]*+[{ARABIC}]\S*")
_PICTURED = {"||": "", "()": "o", "[]": "o", "\\/\\/": "w", "/\\": "a", "\\/": "v", "|-|": "h", "vv": "w"}
_ELL = str.maketrans("1!|¡¦", "lllll")

_LETTER = rf"[^\W_{CJK}{HANGUL}]"
_SPACED = re.compile(rf"(?<![^\W_]){_LETTER}(?:[\W_]++{_LETTER}(?![^\W_]))++")
_WIDE_GAP = re.compile(r"\s\s+")
_NO_LETTER = re.compile(r"[\W_]+")
_SPACED_HANGUL = re.compile(
    rf"(?<![^\W\d_])[{HANGUL}](?:[\W\d_]++[{HANGUL}](?![^\W\d_]))*+(?:[\W\d_]++[{HANGUL}]++)?"
)
_NO_HANGUL = re.compile(rf"[^{HANGUL}]+")
_SHORT_WORDS = (
    "ad|am|an|as|at|be|by|do|dr|ex|go|he|hi|if|in|is|it|la|le|me|mr|ms|my|no|of|oh|ok|on|or|pm|re|so|st|to|tv|uk|up|us|vs|we"
    "|من|في|لا|ما|هو|هي|عن|او|ان|كل|قد|لم|لن|يا|بل|ثم|مع|اذ"
)
_PIECES = re.compile(
    rf"(?<!\S)(?:(?!(?:{_SHORT_WORDS})(?!\S))[a-z{ARABIC}]{{1,2}}\s){{2,}}(?!(?:{_SHORT_WORDS})(?!\S))[a-z{ARABIC}]{{1,2}}(?!\S)"
)
_FIRST_LETTER_APART = re.compile(r"(?<!\S)([b-hj-z])\s(?=([a-z]{2,})(?!\S))")
_LAST_LETTER_APART = re.compile(r"(?<!\S)([a-z]{2,})\s([b-hj-z])(?!\S)")
_MASKED = re.compile(r"(?<![^\W_])(?<![*#%])[a-z]++(?:[*#%]++[a-z]++)++")
_ALONE = re.compile(r"(?<!\S)[^\w\s]*+(\w++)[^\w\s]*+(?!\S)")
_VOWELS = str.maketrans("aeiou*#%", "********")


@dataclass(frozen=True)
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
    def numbered(self) -> list[str]:
        """The words with their digits, in order."""
        if not has_digit(self.lower):
            return self.plain
        return _numbered(self.lower)

    @cached_property
    def sequences(self) -> tuple[list[str], ...]:
        """The words in order: as they stand, with digits, without inner signs, with digits as letters."""
        mended = _words(_without_signs(self.lower.translate(_TO_SPACES)))
        as_letters = _words(_as_letters(self.lower, listing=True, ell=False))
        return self.plain, self.numbered, mended, as_letters

    @cached_property
    def alone(self) -> frozenset[str]:
        """What stands between spaces, without signs around it."""
        return frozenset(_ALONE.findall(self.lower))

    @cached_property
    def clauses(self) -> chinese.Clauses | None:
        """The text as Chinese; None where it has no Han."""
        return chinese.read_clauses(self.lower) if has_cjk(self.lower) else None

    @cached_property
    def spaced_hangul(self) -> str:
        """Syllables that stand alone, with the word after them, one space between them; a line for each run."""
        if not self.has_hangul:
            return ""
        runs = (_NO_HANGUL.sub(" ", run) for run in _SPACED_HANGUL.findall(self.lower))
        return "\n".join(f" {run} " for run in runs if " " in run)

    @cached_property
    def spaced_letters(self) -> str:
        """Letters that stand alone, joined; a line for each run."""
        return "\n".join(_NO_LETTER.sub("", run) for run in _SPACED.findall(self.lower))

    @cached_property
    def masked(self) -> frozenset[str]:
        """Words with a star or the like for a letter, all vowels as stars: f*ck."""
        if not any(sign in self.lower for sign in "*#%"):
            return frozenset()
        return frozenset(mask(word) for word in _MASKED.findall(self.lower))


def mask(word: str) -> str:
    """Return a word with one star for each run of vowels."""
    return re.sub(r"\*+", "*", squeeze(word.translate(_VOWELS)))


def read(text: str) -> Readings:
    """Return the readings of a text, in time linear in its length."""
    cased = skeleton(text)
    lower = hangul.without_blooming(cased.casefold())
    plain = WORD.findall(lower)
    words = dict.fromkeys(plain)
    if has_digit(lower):
        words |= dict.fromkeys(_numbered(lower))
    words |= dict.fromkeys(_mended_words(cased))
    words |= dict.fromkeys(_spaced_words(lower))
    everything = list(words)
    return Readings(lower=lower, plain=plain, words=everything, squeezed=squeeze("\n".join(everything)).split("\n"))


def _mended_words(cased: str) -> list[str]:
    """Return the words of the chunks that have signs or digits: without them, and with them as letters."""
    signed = "\n".join(_SIGNED.findall(cased))
    if not signed:
        return []
    lower = english.separate_contractions(signed.casefold())
    made = []
    if _INNER_SIGN.search(lower):
        made += _words(_without_signs(lower)) + _words(_without_signs(lower.translate(_TO_SPACES)))
    numberless = _MODEL_NUMBER.sub(" ", signed).casefold()
    if _LATIN.search(numberless):
        for listing in (True, False):
            made += _words(_as_letters(numberless, listing=listing, ell=False))
            made += _words(_as_letters(numberless, listing=listing, ell=True))
    if (arabic_chunks := _WITH_ARABIC.findall(lower)) and not lower.isascii():
        made += _words(_without_signs("\n".join(arabic_chunks).translate(arabic.LEET)))
    return made


def _numbered(lower: str) -> list[str]:
    found: list[str] = NUMBERED_WORD.findall(lower.translate(arabic.DIGITS) if _ARABIC_DIGIT.search(lower) else lower)
    return found


def _words(text: str) -> list[str]:
    found: list[str] = WORD.findall(text)
    return found


def _without_signs(text: str) -> str:
    """Return a text of letters and spaces only."""
    return text.translate(_ASCII_LETTERLESS) if text.isascii() else _LETTERLESS.sub("", text)


def _as_letters(lower: str, *, listing: bool, ell: bool) -> str:
    """Return a text with digits and signs as letters, in the chunks that have a Latin letter.

    `listing`: commas and brackets are spaces instead of nothing. `ell`: 1 and the like are l instead of i.
    """
    for picture, letters in _PICTURED.items():
        if picture in lower:
            lower = lower.replace(picture, letters)
    text = _SHOUTING.sub("", lower)
    text = text.translate(_TO_SPACES) if listing else text
    text = "\n".join(_WITH_LATIN.findall(text))
    return _without_signs((text.translate(_ELL) if ell else text).translate(signs()))


def _spaced_words(lower: str) -> list[str]:
    """Return the words whose letters, or some of whose letters, stand apart."""
    made = []
    for run in _SPACED.findall(lower):
        for part in {run, *_WIDE_GAP.split(run)}:
            joined = _NO_LETTER.sub("", part)
            made += [joined, joined[1:]] if joined[:1] in ("a", "i", "و") else [joined]
    numbered = [word for word in made if has_digit(word)]
    made += [word.translate(signs()) for word in (*numbered, *(word.translate(_ELL) for word in numbered))]
    made += [_NO_LETTER.sub("", run) for run in _PIECES.findall(lower)]
    made += [first + rest for first, rest in _FIRST_LETTER_APART.findall(lower)]
    made += [rest + last for rest, last in _LAST_LETTER_APART.findall(lower)]
    return made
