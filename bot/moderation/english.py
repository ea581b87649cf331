"""English: inflections, contractions, and words that are no stretched form of another."""

from __future__ import annotations

import re
from functools import lru_cache

from bot.moderation.tables import read_words

_VOWELS = "aeiou"
_IRREGULAR = {
    "child": "children",
    "foot": "feet",
    "goose": "geese",
    "knife": "knives",
    "leaf": "leaves",
    "life": "lives",
    "man": "men",
    "mouse": "mice",
    "person": "people",
    "thief": "thieves",
    "tooth": "teeth",
    "wife": "wives",
    "wolf": "wolves",
    "woman": "women",
}
_CONTRACTION = re.compile(r"['’ʼ`´](?<=[a-z].)(?=(?:ll|re|ve|s|t|d|m)(?![^\W_]))")


@lru_cache(maxsize=20_000)  # of words that moderators choose
def inflect(word: str) -> frozenset[str]:
    """Return a word, its plural, -ed and -ing; below three letters only the word.

    A word of three letters has -ed and -ing only if they double its last letter.
    """
    forms = {word}
    if len(word) < 3:
        return frozenset(forms)
    if word in _IRREGULAR:
        forms.add(_IRREGULAR[word])
    if word.endswith(("s", "x", "z", "ch", "sh", "o")):
        forms.add(word + "es")
    if not word.endswith("s"):
        forms.add(word + "s")
    if word.endswith("y") and word[-2] not in _VOWELS:
        forms |= {word[:-1] + "ies", word[:-1] + "ied"}
    if word.endswith("man") and len(word) > 4:
        forms.add(word[:-2] + "en")
    return frozenset(forms | _verb_forms(word))


def _verb_forms(word: str) -> set[str]:
    doubled = word[-1] not in "aeiouwxy" and word[-2] in _VOWELS and word[-3] not in _VOWELS
    if len(word) == 3 and not doubled:
        return set()
    if word.endswith("e"):
        return {word + "d", word[:-1] + "ing"}
    made = {word + word[-1] + "ed", word + word[-1] + "ing"} if doubled else set()
    return made if len(word) < 5 and doubled else made | {word + "ed", word + "ing"}


def separate_contractions(text: str) -> str:
    """Return a text in lower case with a space for the apostrophe of he'll, who're and it's."""
    return _CONTRACTION.sub(" ", text)


def is_no_stretching(word: str) -> bool:
    """Return whether a word is spelled with a doubled letter, as good is, and so is not a stretched word."""
    return word in read_words("english_doubled.txt")
