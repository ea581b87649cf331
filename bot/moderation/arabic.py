"""Arabic: variants of letters, and the clitics around a word."""

from __future__ import annotations

import re
from functools import cache

from bot.moderation.tables import read_words

# NFKD has already resolved presentation forms, and the letters that carry a hamza or a madda.
_VARIANTS = {
    "ا": "ٱٲٳٵ",
    "ب": "پٮٻڀݐ",
    "ت": "ٹٺټٽٿ",
    "ج": "چڃڄڇ",
    "ح": "ځڂ",
    "د": "ڈډڊڋڌڍڎڏڐ",
    "ر": "ڑڒړڔڕږ",
    "ز": "ژڗڙ",
    "س": "ښڛ",
    "ش": "ڜۺ",
    "ض": "ڞۻ",
    "ط": "ڟ",
    "ع": "ڠۼ",
    "ف": "ڡڢڣڤڥڦ",
    "ق": "ٯڧڨ",
    "ك": "کڪګڬڭڮگڰڱڲڳڴ",
    "ل": "ڵڶڷڸ",
    "ن": "ںڹڻڼڽ",
    "ه": "ھہۀۂەۿ",
    "ة": "ۃ",
    "و": "ۄۅۆۇۈۉۊۋۏ",
    "ي": "یۍێېۑےۓؽؾؿ",
    "": "ءٴـ",
}
_DIGITS = {start + digit: str(digit) for start in (0x660, 0x6F0) for digit in range(10)}
LETTERS = {ord(other): letter for letter, others in _VARIANTS.items() for other in others} | _DIGITS
"""For str.translate. Yeh without dots stays apart: at the end of دمى it is an alef."""
LEET = {
    ord(sign): letter
    for letter, signs in {"ا": "1!|", "ه": "05", "ع": "3", "ح": "7", "": "2"}.items()
    for sign in signs
}
"""Digits and signs that stand for Arabic letters by their shape, or by the habit of chats."""

_LETTER = re.compile("[\u0620-\u06ff]")
_INNER_YEH = re.compile("ى(?=[ء-ي])")
_ARTICLE = re.compile("^[وف]?(?:[بك]?ال|لل)")
_WITH_CLITIC = re.compile("\n([وفبلكا].*)")
_CONJUNCTIONS = ("", "و", "ف")
_PREPOSITIONS = ("", "ب", "ل", "ك", "ال", "بال", "كال", "لل", "لال")
_PRONOUNS = ("ه", "ها", "هم", "هن", "هما", "ك", "كم", "كن", "نا")
_ENDINGS = ("ا", "ات", "ين", "ون", "ان", "وا")


@cache
def prefixes() -> tuple[frozenset[str], ...]:
    """Return the clitics that may stand before a word, by their length from 1."""
    made = {first + second for first in _CONJUNCTIONS for second in _PREPOSITIONS}
    longest = max(map(len, made))
    return tuple(frozenset(each for each in made if len(each) == length) for length in range(1, longest + 1))


def has_letters(text: str) -> bool:
    """Return whether a text holds Arabic letters."""
    return not text.isascii() and _LETTER.search(text) is not None


def normalise(text: str) -> str:
    """Return a text in which yeh without dots stands only at the end of words."""
    return _INNER_YEH.sub("ي", text) if "ى" in text else text


def with_clitics(lines: str) -> list[str]:
    """Return the words, each after a line break, whose first letter may be a clitic."""
    return _WITH_CLITIC.findall(lines)


def is_whole(word: str) -> bool:
    """Return whether a word only looks as if it began with a clitic: بحر, البحر."""
    words = read_words("arabic_words.txt")
    return word in words or _ARTICLE.sub("", word) in words


def inflect(word: str) -> set[str]:
    """Return a word with the endings and pronouns that it may have; without prefixes."""
    if word[-1] in "ةه" and len(word) > 2:
        stem = word[:-1]
        forms = {
            stem + "ة",
            stem + "ه",
            stem + "ات",
            *(stem + "ت" + each for each in (*_PRONOUNS, "ين", "ان")),
        }
        forms |= {stem + "ات" + each for each in _PRONOUNS}
        return forms | ({word + each for each in _PRONOUNS} if word[-1] == "ه" else set())
    forms = {word, *(word + each for each in (*_PRONOUNS, *_ENDINGS))}
    if word[-1] in "يى":
        forms |= {word[:-1] + "ي", word[:-1] + "ى"}
        forms |= {word[:-1] + "ية", word[:-1] + "يه"} if len(word) > 3 else set()
    if len(word) > 2:
        forms.add(word + "ت")
    if len(word) == 2:
        forms.add(word + "ي")
    if len(word) > 4:
        forms |= {word + "ي", word + "ية", word + "يه"}
    return forms
