"""English, and every other language with an alphabet: inflections, digits and signs as letters."""

from __future__ import annotations

import re
from functools import cache

from bot.moderation.letters import ENDS, is_latin, without_signs, words_of
from bot.moderation.tables import look_alikes

_VOWELS = "aeiou"
_SINGULAR = "child foot goose knife leaf life man mouse person thief tooth wife wolf woman"
_PLURAL = "children feet geese knives leaves lives men mice people thieves teeth wives wolves women"
_IRREGULAR = dict(zip(_SINGULAR.split(), _PLURAL.split(), strict=True))
_SHAPES = dict(zip("0123456789@$!|+ilI", "oIzeasgtbgasIItIII", strict=True))
_LETTERS = str.maketrans("0123456789@$!|+", "oizeasgtbgasiit")
_SIGN_IN_TERM = re.compile(r"[a-z][@$]|[@$][a-z]|[a-z][!|+][a-z]")
_EITHER = str.maketrans("il", "II")
_DIGITS = re.compile("[0-9]+")
_AROUND_SIGNS = re.compile("[a-z][^a-z]+[a-z]")


def forms(word: str) -> set[str]:
    """Return a word, its plural, -ed and -ing, and these with I for i and l, which have the same shapes.

    A word below three letters has no others, one of three letters -ed and -ing only if they double its last.
    """
    made = _inflections(word) if is_latin(word) and len(word) > 2 else {word}
    return made | {form.translate(_EITHER) for form in made}


def words(text: str) -> list[str]:
    """Return the words of a text with digits and signs as the letters of their shape: bl00d, a$$.

    What may be an i or an l is an I. A piece of more digits than letters is a word only if some of them stand
    between letters: p3n15, but not A55.
    """
    mixed, shapes = _shapes()
    if not mixed.search(text):
        return []
    pieces = text.translate(ENDS)
    pairs = zip(pieces.split(), pieces.translate(shapes).split(), strict=True)
    read = [
        shaped
        if not (piece.isalpha() and piece.islower()) and mixed.search(piece) and _is_word(piece)
        else piece
        for piece, shaped in pairs
    ]
    return words_of(without_signs(" ".join(read)))


def is_part_of_other(word: str, start: int, end: int) -> bool:
    """Return whether letters stand before or after the form."""
    return start > 0 or end < len(word)


def without_shapes(term: str) -> str:
    """Return a term with letters for its digits and signs, if it has signs for letters: a$$."""
    return term.translate(_LETTERS) if _SIGN_IN_TERM.search(term) else term


def _is_word(piece: str) -> bool:
    return 2 * len(_DIGITS.sub("", piece)) >= len(piece) or _AROUND_SIGNS.search(piece) is not None


@cache
def _shapes() -> tuple[re.Pattern[str], dict[int, str]]:
    """Return a pattern of a letter beside a digit or a sign, and the letters of their shapes."""
    signs = {other: letter for other, letter in look_alikes().items() if not other.isalpha()} | _SHAPES
    within = "".join(re.escape(sign) for sign in signs if sign not in "il")
    table = {ord(sign): "I" if letter in "il" else letter for sign, letter in signs.items()}
    return re.compile(f"[a-z][{within}]|[{within}][a-z]"), table


def _inflections(word: str) -> set[str]:
    made = {word}
    if word in _IRREGULAR:
        made.add(_IRREGULAR[word])
    if word.endswith(("s", "x", "z", "ch", "sh", "o")):
        made.add(word + "es")
    if not word.endswith("s"):
        made.add(word + "s")
    if word.endswith("y") and word[-2] not in _VOWELS:
        made |= {word[:-1] + "ies", word[:-1] + "ied"}
    if word.endswith("man") and len(word) > 4:
        made.add(word[:-2] + "en")
    return made | _verb_forms(word)


def _verb_forms(word: str) -> set[str]:
    doubled = word[-1] not in "aeiouwxy" and word[-2] in _VOWELS and word[-3] not in _VOWELS
    if len(word) == 3 and not doubled:
        return set()
    if word.endswith("e"):
        return {word + "d", word[:-1] + "ing"}
    made = {word + word[-1] + "ed", word + word[-1] + "ing"} if doubled else set()
    return made if len(word) < 5 and doubled else made | {word + "ed", word + "ing"}
