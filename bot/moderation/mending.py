"""Words with signs or digits within: without them, and with them as letters."""

from __future__ import annotations

import re
from functools import cache

from bot.moderation import arabic, english
from bot.moderation.scripts import ARABIC, words_of
from bot.moderation.tables import look_alikes

_LISTING = ",;:()[]{}<>\"/\\"
_ASCII_LISTING = str.maketrans(dict.fromkeys(_LISTING, " "))
_ANY_LISTING = re.compile(rf"[{re.escape(_LISTING)}。、]+")
_LISTING_INSIDE = re.compile(rf"(?<!\S)[^\s{re.escape(_LISTING)}。、]++[{re.escape(_LISTING)}。、]\S+")
_SIGNS = re.compile(r"(?:[^\w\s]|[\d_])+")
_ASCII_SIGNS = str.maketrans(
    {chr(code): None for code in range(128) if not chr(code).isalpha() and not chr(code).isspace()}
)

_SIGNED = re.compile(r"(?<!\S)[^\W\d_]*+\S\S*")
_INNER_SIGN = re.compile(r"[^\W\d_](?:[^\w\s]|[\d_])+[^\W\d_]")

_MODEL_NUMBER = re.compile(r"(?<![^\W_])[A-Z]\d+(?![^\W_])")
_SHOUTING = re.compile(r"(?<![!?])[!?]++(?!\S)")
_WITH_LATIN = re.compile(r"(?<!\S)[^\sa-z]*+[a-z]\S*")
_OTHER_SIGNS = re.compile(r"[^\w\s\x00-\x7f]+")
_OTHER_LETTERS = re.compile(r"[^\x00-\x7f]+")
_PICTURED = {"||": "", "()": "o", "[]": "o", "\\/\\/": "w", "/\\": "a", "\\/": "v", "|-|": "h", "vv": "w"}
_SHAPES = dict(zip("0123456789@$!|+", "oizeasgtbgasiit", strict=True))
_AS_I = str.maketrans(_SHAPES)
_AS_L = str.maketrans(_SHAPES | dict.fromkeys("1!|", "l"))
_I_OR_L = re.compile(r"[1!|]")
_ARABIC_RUN = re.compile(rf"[{ARABIC}0-9\u0660-\u0669!|]+")


def without_signs(text: str) -> str:
    """Return a text of letters and spaces only."""
    return text.translate(_ASCII_SIGNS) if text.isascii() else _SIGNS.sub("", text)


def without_listing(text: str) -> str:
    """Return a text with spaces for commas, brackets and slashes."""
    return text.translate(_ASCII_LISTING) if text.isascii() else _ANY_LISTING.sub(" ", text)


@cache
def _other_shapes() -> tuple[re.Pattern[str], dict[int, str]]:
    """Match the signs beyond ASCII that look like a letter; the table for str.translate."""
    shapes = {other: letter for other, letter in look_alikes().items() if not other.isalpha()}
    return re.compile(f"[{''.join(map(re.escape, shapes))}]"), str.maketrans(shapes)


def as_letters(text: str) -> str:
    """Return a text whose digits and signs are the letters of their shape; 1 is i."""
    pattern, table = _other_shapes()
    if not text.isascii() and pattern.search(text):
        text = text.translate(table)
    return text.translate(_AS_I)


def mended_words(cased: str) -> list[str]:
    """Return the words of the chunks that have signs or digits: without them, and with them as letters."""
    signed = "\n".join(dict.fromkeys(_SIGNED.findall(cased)))
    if not signed:
        return []
    lower = english.separate_contractions(signed.casefold())
    made = []
    if _INNER_SIGN.search(lower):
        made += words_of(without_signs(without_listing(lower)))
        made += words_of(without_signs("\n".join(_LISTING_INSIDE.findall(lower))))
    made += words_with_shapes(_MODEL_NUMBER.sub(" ", signed).casefold(), unlisted=True)
    if not lower.isascii() and arabic.has_letters(lower):
        runs = (run for run in _ARABIC_RUN.findall(lower) if not run.isalpha())
        made += words_of(without_signs("\n".join(runs).translate(arabic.LEET)))
    return made


def words_with_shapes(lower: str, *, unlisted: bool) -> list[str]:
    """Return the words in Latin letters whose digits and signs are the letters of their shape.

    With `unlisted`, once more with 1 as l, and both again with commas and brackets as nothing.
    """
    text = _latin_only(lower)
    if not text:
        return []
    for picture, letters in _PICTURED.items():
        if picture in text:
            text = text.replace(picture, letters)
    text = _SHOUTING.sub("", text)
    versions = [_chunks_with_letters(text.translate(_ASCII_LISTING))]
    if unlisted:
        versions.append(_chunks_with_letters("\n".join(_LISTING_INSIDE.findall(text))))
        versions += [version.translate(_AS_L) for version in versions if _I_OR_L.search(version)]
    joined = "\n".join(versions).translate(_AS_I)
    return joined.translate(_ASCII_SIGNS).split()


def _chunks_with_letters(text: str) -> str:
    return "\n".join(_WITH_LATIN.findall(text))


def _latin_only(lower: str) -> str:
    """Return a text in ASCII: other letters are spaces, other signs the letters of their shape or nothing."""
    if lower.isascii():
        return lower
    pattern, table = _other_shapes()
    text = lower.translate(table) if pattern.search(lower) else lower
    return _OTHER_LETTERS.sub(" ", _OTHER_SIGNS.sub("", text))
