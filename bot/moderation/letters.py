"""The letters of texts: their codes and kinds, words by script, runs of the same letter, and the skeleton.

Kinds are those of one version of Unicode, whatever Python knows. An operation on an array of codes is many
times as fast as a pass of `re`.

In the skeleton of a text each character is replaced by the letters that it stands for, by one table: NFKD
without marks, look-alikes, variants of Arabic letters, digits and simplified Han.
"""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import numpy.typing as npt
import unicodedata2

from bot.moderation.tables import look_alikes, read_words

Codes = npt.NDArray[np.uint32]
Kinds = npt.NDArray[np.uint16]

SPACE = 0x20
LETTER, DIGIT, HAN, KOREAN, ARABIC, LATIN, ENDS_WORD, ENDS_CLAUSE, BLANK = (1 << bit for bit in range(9))
"""Kinds: a letter is no Han and no jamo; KOREAN is a syllable, LATIN is a to z, BLANK any white space."""
_ENCODING, _ERRORS = "utf-32-le", "surrogatepass"
_TABLED, _ONLY_HAN = 0x40000, 0x20000  # no letters beyond, and none but Han from there on
_KANA = "\u3040-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # written without spaces between words, as Han is
HAN_LETTERS = f"{_KANA}\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
"""For a class of `re`: Han and kana."""
_SCRIPTS = (
    (HAN_LETTERS, HAN),
    ("가-힣", KOREAN),
    ("\u0620-\u064a\u066e-\u06d3\u06d5\u06fa-\u06ff", ARABIC),
    ("a-z", LATIN),
)
_ENDS = ",;:()[]{}<>\"'`/\\。、"  # they end a word, where other signs stand within one
_CLAUSE_ENDS = ",;:!?。、\n"
_NO_LETTERS = "\u1100-\u11ff\u3131-\u318e\uffa1-\uffdc"  # jamo
_REPEATED = re.compile(r"(.)(?=\1)")
_RUN = re.compile(r"((.)\2*)", re.DOTALL)
_CJK = re.compile(f"[{HAN_LETTERS}]")
_DIGIT = re.compile(r"\d")
_CONTRACTED = r"(?:ll|re|ve|s|t|d|m)(?![^\W\d_])"  # he'll, it's
_APOSTROPHE = re.compile(rf"(?<=[^\W\d_])['`](?=[^\W\d_])(?!{_CONTRACTED})")

_ASCII = list(map(chr, range(128)))
_ASCII_WORDS = str.maketrans({each: " " for each in _ASCII if not each.isalpha()})
_ASCII_NUMBERED = str.maketrans({each: " " for each in _ASCII if not each.isalnum()})
_ASCII_SIGNS = str.maketrans({each: None for each in _ASCII if not (each.isalpha() or each.isspace())})
ENDS = str.maketrans(dict.fromkeys(_ENDS, " "))
"""For str.translate: spaces for the signs that end a word."""
_SPANS = (
    *((0x80, 0x1100), (0x1200, 0x3131), (0x318F, 0x3400), (0xA000, 0xA960), (0xA980, 0xAC00)),
    *((0xD800, 0xE000), (0xF900, 0xFFA0), (0xFFE0, 0x20000), (0x2F800, 0x2FA20), (0xE0000, 0xE01F0)),
)
"""Characters that may stand for others or for nothing; without Han, syllables and jamo."""
_UNSEEN = ("Mn", "Me", "Cf", "Cs")  # marks, invisible characters, lone surrogates
_ALPHABETS = (0x1F150, 0x1F170, 0x1F1E6)  # from a to z: white on black circles, on squares, and flags
_OTHERS = dict.fromkeys("ءٴـ\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0", "") | dict.fromkeys("’‘ʼ´′", "'")
_NOTHING = 0x11_0000  # beyond the last code: no letter; codes above are rows of several letters
_LONGEST = 4  # letters for one character; the few that stand for more are Arabic phrases, and become a space


@cache
def _kinds() -> Kinds:
    categories = list(map(unicodedata2.category, map(chr, range(_ONLY_HAN))))
    kinds = {each: LETTER if each[0] in "LN" else 0 for each in set(categories)} | {"Nd": DIGIT}
    made = np.zeros(_TABLED + 1, np.uint16)
    made[:_ONLY_HAN] = [kinds[each] for each in categories]
    for spans, kind in (*_SCRIPTS, (_NO_LETTERS, 0)):
        for start, end in re.findall("(.)-(.)", spans):
            places = slice(ord(start), ord(end) + 1)
            made[places] = kind if kind in (HAN, 0) else made[places] | kind
    for signs, kind in ((_ENDS, ENDS_WORD), (_CLAUSE_ENDS, ENDS_CLAUSE)):
        made[list(map(ord, signs))] |= kind
    made[[code for code in range(_ONLY_HAN) if chr(code).isspace()]] |= BLANK
    return made


def codes_of(text: str) -> Codes:
    """Return the code of each character; the array is read-only."""
    return np.frombuffer(text.encode(_ENCODING, _ERRORS), np.uint32)


def text_of(codes: Codes) -> str:
    """Return the text of these codes."""
    return codes.tobytes().decode(_ENCODING, _ERRORS)


def kinds_of(codes: Codes) -> Kinds:
    """Return the kinds of characters as bits."""
    return _kinds()[np.minimum(codes, _TABLED)]


def words_of(text: str, *, digits: bool = False) -> list[str]:
    """Return the words of a text in order, with or without their digits; Han belongs to no word.

    Words also end where the script changes: nude를.
    """
    if text.isascii():
        return text.translate(_ASCII_NUMBERED if digits else _ASCII_WORDS).split()
    codes = codes_of(text)
    kinds = kinds_of(codes)
    within = kinds & (LETTER | DIGIT if digits else LETTER) != 0
    scripts = np.where(within, kinds & (KOREAN | ARABIC | LATIN), 0)
    changes = (scripts[1:] != scripts[:-1]) & (scripts[1:] != 0) & (scripts[:-1] != 0)
    spaced = np.where(within, codes, SPACE)
    if changes.any():
        spaced = np.insert(spaced, np.flatnonzero(changes) + 1, SPACE)
    return text_of(spaced).split()


def without_signs(text: str) -> str:
    """Return a text without the signs and digits within its words; contractions are two words."""
    text = _APOSTROPHE.sub("", text)
    if text.isascii():
        return text.translate(ENDS).translate(_ASCII_SIGNS)
    codes = codes_of(text)
    kinds = kinds_of(codes)
    spaced = np.where(kinds & ENDS_WORD, np.uint32(SPACE), codes)
    return text_of(spaced[kinds & (LETTER | HAN | ENDS_WORD | BLANK) != 0])


def squeeze(text: str) -> str:
    """Return a text with one character for each run of the same one; blank lines become one line break."""
    if len(text) < 100:  # where re is as fast as an array
        return _REPEATED.sub("", text)
    codes = codes_of(text)
    kept = np.ones(len(codes), np.bool_)
    kept[:-1] = codes[:-1] != codes[1:]
    return text_of(codes[kept])


def runs_of(word: str) -> list[str]:
    """Return the runs of the same letter in a word."""
    return [run for run, _ in _RUN.findall(word)]


def is_stretched(word: str, form: str) -> bool:
    """Return whether a word is a form, or the form with letters repeated; without repetitions both are equal.

    One letter more makes another word: good is not god, bloood is blood. Digits are not repeated.
    """
    if word == form or len(word) - len(form) < 2:
        return word == form
    pairs = zip(runs_of(word), runs_of(form), strict=True)
    return all(run == own or (len(run) > len(own) and not run[0].isdigit()) for run, own in pairs)


def has_cjk(text: str) -> bool:
    """Return whether a text holds Han or kana, which are written without spaces between words."""
    return not text.isascii() and _CJK.search(text) is not None


def has_digit(text: str) -> bool:
    """Return whether a text holds a digit."""
    return _DIGIT.search(text) is not None


def is_hangul(word: str) -> bool:
    """Return whether a word ends in a syllable of Hangul."""
    return "가" <= word[-1:] <= "힣"


def is_arabic(word: str) -> bool:
    """Return whether a word ends in an Arabic letter."""
    return "\u0620" <= word[-1:] <= "\u06ff"


def is_latin(word: str) -> bool:
    """Return whether a word consists of the letters a to z."""
    return word.isascii() and word.isalpha()


def skeleton(text: str) -> str:
    """Return a text without invisible characters, and with one letter for all that look like it.

    Case, digits, signs and spaces stay.
    """
    if text.isascii():
        return text
    table, rows = _table()
    codes = table[codes_of(text)]
    several = np.flatnonzero(codes > _NOTHING)
    if several.size:
        counts = np.ones(len(codes), np.intp)
        counts[several] = _LONGEST
        letters = rows[codes[several] - _NOTHING - 1]
        codes = np.repeat(codes, counts)
        codes[codes > _NOTHING] = letters.ravel()
    return text_of(codes[codes != _NOTHING])


@cache
def _table() -> tuple[Codes, Codes]:
    """Return what each character becomes, and the rows of letters of those that stand for several."""
    every = [chr(code) for start, end in _SPANS for code in range(start, end)]
    special = _special(every)
    decomposed = unicodedata2.normalize("NFKD", "\n".join(every)).split("\n")
    pairs = zip(every, decomposed, strict=True)
    letters = {ord(one): made.translate(special) for one, made in pairs if one != made} | special
    several = sorted({made if len(made) <= _LONGEST else " " for made in letters.values() if len(made) > 1})
    places = {made: _NOTHING + place for place, made in enumerate(several, start=1)} | {"": _NOTHING}
    table = np.arange(_NOTHING, dtype=np.uint32)
    for code, made in letters.items():
        short = made if len(made) <= _LONGEST else " "
        table[code] = places[short] if short in places else ord(short)
    rows = np.full((len(several), _LONGEST), _NOTHING, np.uint32)
    for row, made in enumerate(several):
        rows[row, : len(made)] = codes_of(made)
    return table, rows


def _special(characters: list[str]) -> dict[int, str]:
    """Return the letters of the characters that do not stand for those of their NFKD."""
    made = dict(_OTHERS)
    for character, category in zip(characters, map(unicodedata2.category, characters), strict=True):
        if category in _UNSEEN:
            made[character] = ""
        elif category == "Nd":
            made[character] = str(unicodedata2.decimal(character))
    alike = look_alikes().items()
    made |= {other: letter for other, letter in alike if unicodedata2.category(other)[0] == "L"}
    made |= {pair[0]: pair[1] for pair in read_words("traditional.txt")}
    made |= {chr(start + place): chr(ord("a") + place) for start in _ALPHABETS for place in range(26)}
    return {ord(character): letter for character, letter in made.items()}
