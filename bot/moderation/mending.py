"""Words with signs or digits within: without them, and with them as letters."""

from __future__ import annotations

import re
from functools import cache

from bot.moderation import arabic, english
from bot.moderation.scripts import ARABIC, words_of
from bot.moderation.tables import look_alikes

_LISTING = ',;:()[]{}<>"/\\'
_ASCII_LISTING = str.maketrans(dict.fromkeys(_LISTING, " "))
_ANY_LISTING = re.compile(rf"[{re.escape(_LISTING)}。、]+")
_INNER_LISTING = re.compile(rf"[{re.escape(_LISTING)}。、]\w")
_NO_LETTERS = re.compile(r"[\W\d_]+")
_ASCII_SIGNS = str.maketrans(
    {chr(code): None for code in range(128) if not chr(code).isalpha() and not chr(code).isspace()}
)
LONGEST_PIECE = 100
"""A longer piece without a space is not read as a word. Bounds the time for hostile texts."""
_LONGEST_LISTED = 32
_GAP = "\u02ee"  # in place of spaces: re takes it for a letter, so _NO_LETTERS keeps it

_SHOUTING = re.compile(r"[!?](?<![!?].)[!?]*+(?!\S)", re.DOTALL)
_SHAPES = dict(zip("0123456789@$!|+", "OIZEASGTBGASIIT", strict=True))  # capitals: the text has none
_AS_I = str.maketrans(_SHAPES)
_AS_L = str.maketrans(_SHAPES | dict.fromkeys("1!|", "L"))
_ASCII_OTHERS = {code: None for code in _ASCII_SIGNS if chr(code) not in _SHAPES}
_ARABIC_RUN = re.compile(rf"[{ARABIC}0-9!|]+")


def without_signs(text: str) -> str:
    """Return a text of letters and spaces only."""
    if text.isascii():
        return text.translate(_ASCII_SIGNS)
    return _NO_LETTERS.sub("", _GAP.join(text.split())).replace(_GAP, " ")


def without_listing(text: str) -> str:
    """Return a text with spaces for commas, brackets and slashes."""
    return text.translate(_ASCII_LISTING) if text.isascii() else _ANY_LISTING.sub(" ", text)


@cache
def _other_shapes() -> tuple[re.Pattern[str], dict[str, str]]:
    """Return a pattern of the signs beyond ASCII that look like a letter, and the capital letter of each."""
    shapes = {other: letter.upper() for other, letter in look_alikes().items() if not other.isalpha()}
    return re.compile(f"[{''.join(map(re.escape, shapes))}]"), shapes


def as_letters(text: str) -> str:
    """Return a text whose digits and signs are the letters of their shape; 1 is i."""
    return _with_other_shapes(text).translate(_AS_I).lower()


def as_letters_with_l(text: str) -> str:
    """Return the text of `as_letters`, but 1 becomes l."""
    return _with_other_shapes(text).translate(_AS_L).lower()


def mended_words(lower: str) -> list[str]:
    """Return the words of a text in lower case that have signs or digits inside, without these."""
    text = english.separate_contractions(lower)
    pieces = without_listing(text).split()
    pieces = [piece for piece in pieces if not piece.isalpha() and len(piece) <= LONGEST_PIECE]
    made = words_of(without_signs("\n".join(pieces + _listed(text))))
    if not lower.isascii() and arabic.has_letters(lower):
        runs = (run for run in _ARABIC_RUN.findall(lower) if not run.isalpha())
        made += words_of(without_signs("\n".join(runs).translate(arabic.LEET)))
    return made


def words_in_shapes(lower: str, model_numbers: frozenset[str]) -> list[str]:
    """Return the words in which digits and signs stand for Latin letters by their shape: bl00d, a$$.

    Two readings of each: 1 and the like as i and as l; commas and brackets as spaces and as nothing. A model
    number such as A55 is left out.
    """
    text = _ascii(lower)
    mixed = _mixed(text.translate(_ASCII_LISTING), model_numbers)
    with_l = [piece for piece in mixed if "1" in piece or "!" in piece or "|" in piece]
    mixed += _mixed("\n".join(_listed(text)), model_numbers)
    versions = ((mixed, _AS_I), (with_l, _AS_L))
    return "\n".join(["\n".join(chosen).translate(table) for chosen, table in versions]).lower().split()


def _listed(text: str) -> list[str]:
    """Return the short chunks with commas or brackets within: b,l,o,o,d and n(u)de."""
    return [chunk for chunk in text.split() if len(chunk) <= _LONGEST_LISTED and _INNER_LISTING.search(chunk)]


def _mixed(text: str, model_numbers: frozenset[str]) -> list[str]:
    """Return the pieces with both letters and shapes; shapes beyond ASCII have become capitals already."""
    return [
        piece
        for piece in text.translate(_ASCII_OTHERS).split()
        if not (piece.isalpha() and piece.islower()) and piece.upper() != piece and piece not in model_numbers
    ]


def all_words_in_shapes(lower: str) -> list[str]:
    """Return all words of a text in order, with digits and signs as letters."""
    return _ascii(lower).translate(_ASCII_LISTING).translate(_ASCII_OTHERS).translate(_AS_I).lower().split()


def _ascii(lower: str) -> str:
    """Return a text without what is beyond ASCII, except for the signs that have the shape of a letter."""
    text = _with_other_shapes(lower).encode("ascii", "ignore").decode().replace("||", "")  # of a spoiler
    return _SHOUTING.sub("", text) if "!" in text or "?" in text else text


def _with_other_shapes(text: str) -> str:
    pattern, shapes = _other_shapes()
    for sign in () if text.isascii() else set(pattern.findall(text)):
        text = text.replace(sign, shapes[sign])
    return text
