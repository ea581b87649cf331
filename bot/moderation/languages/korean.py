"""Korean: jamo typed one by one, stretched vowels, and what may follow a noun in one word."""

from __future__ import annotations

import re
from functools import cache

import unicodedata2

from bot.moderation.letters import has_digit, words_of
from bot.moderation.tables import read_lists

_LEADS, _VOWELS = "\u1100-\u1112", "\u1161-\u1175"
_JAMO = re.compile("[\u1100-\u11ff\u3131-\u318e\uffa1-\uffdc]")
_HANGUL = re.compile(f"[가-힣]|{_JAMO.pattern}")
_LATIN_VOWEL = re.compile(f"(?<=[{_LEADS}])[rl1|](?![a-z])")
# NFKD makes a lead of every typed consonant: ㅅㅔㄱㅅㅡ has three. A lead without a vowel of its own, after a
# vowel, is the tail of the syllable before.
_TAIL = re.compile(f"(?<=[{_VOWELS}])[{_LEADS}](?![{_VOWELS}])")
_TAILS = dict(zip("ᄀᄁᄂᄃᄅᄆᄇᄉᄊᄋᄌᄎᄏᄐᄑᄒ", "ᆨᆩᆫᆮᆯᆷᆸᆺᆻᆼᆽᆾᆿᇀᇁᇂ", strict=True))
_STRETCHED = re.compile(f"([{_VOWELS}])(?:\u110b?\\1)+")  # \u110b is the silent lead
_VERBAL = re.compile(
    r"(?:하|한|할|함|해|했|합|되|된|될|됨|돼|됐|당하|당한|당할|당해|당했|시키|시킨|시켜|적|스러|스럽|스런)[가-힣]*|님|씨"
)


def forms(word: str) -> set[str]:
    """Return the word alone: what may follow it is looked at where it is found."""
    return {word}


def words(text: str) -> list[str]:
    """Return the words of a text with jamo as syllables and without stretched vowels: ㅅㅔㄱㅅㅡ, 누우드.

    If the text has digits, the words with their digits follow: 13ㅅㅏㄹ.
    """
    if text.isascii() or not _HANGUL.search(text):
        return []
    made = composed(text)
    if made == text:
        return []
    return words_of(made) + (words_of(made, digits=True) if has_digit(made) else [])


def composed(text: str) -> str:
    """Return a text with jamo as syllables and without stretched vowels."""
    jamo = unicodedata2.normalize("NFKD", text)
    jamo = _LATIN_VOWEL.sub(lambda found: "\u1161" if found[0] == "r" else "\u1175", jamo)
    jamo = _STRETCHED.sub(r"\1", _TAIL.sub(lambda found: _TAILS.get(found[0], found[0]), jamo))
    made: str = unicodedata2.normalize("NFC", jamo)
    return made


def has_jamo(text: str) -> bool:
    """Return whether a text has jamo that are not written as syllables."""
    return _JAMO.search(text) is not None


def is_part_of_other(word: str, start: int, end: int) -> bool:
    """Return whether a noun has anything before it, or after it what is no ending.

    An ending is a particle; after several syllables also 님, 씨, or a form of 하다, 되다, 적 or the like.
    """
    after_one, after_more = _particles()
    rest = word[end:]
    if start or end - start == 1:
        return start > 0 or rest not in after_one
    return rest not in after_more and _VERBAL.fullmatch(rest) is None


@cache
def _particles() -> tuple[frozenset[str], frozenset[str]]:
    """Return what may follow a noun of one syllable, and a longer noun: 들, a particle, two particles."""
    data = {name: words.split() for name, words in read_lists("korean_particles.toml").items()}
    stacked = {first + second for first in data["stacking"] for second in data["second"]}
    every = {plural + one for plural in ("", "들") for one in {"", *data["first"], *stacked}}
    return frozenset({"", *data["after_one_syllable"]}), frozenset(every)
