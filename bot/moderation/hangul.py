"""Hangul: jamo typed one by one made into syllables again, stretched vowels, particles."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

import numpy as np

from bot.moderation.bounds import bounded
from bot.moderation.scripts import (
    JAMO,
    KOREAN,
    LIKE_VOWEL,
    LOOSE,
    SPACE,
    Codes,
    Places,
    codes_of,
    kinds_of,
    runs,
    text_of,
    within,
)
from bot.moderation.tables import read_lists

_LEADS, _VOWELS, _TAILS = "\u1100-\u1112", "\u1161-\u1175", "\u11a8-\u11c2"
_LOOSE = re.compile("[\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\ud7b0-\ud7fb\uffa1-\uffdc]")
_TYPED_APART = re.compile(rf"[{JAMO}](?<![^\W_].)(?:[\W\d_]++[{JAMO}](?![^\W\d_]))++")
_APART = re.compile(r"[\W\d_]+")
_SYLLABLE = re.compile("[가-힣]")

# NFKD makes a lead of every typed consonant: ㅅㅔㄱㅅㅡ has three. A lead without a vowel of its own, after a
# vowel, is the tail of the syllable before.
_TAIL = re.compile(rf"([{_LEADS}])(?<=[{_VOWELS}].)([{_LEADS}])?(?![{_VOWELS}])")
_LONE = re.compile(rf"[{_LEADS}](?<=[{_VOWELS}{_TAILS}].)[{_LEADS}]*+(?![{_VOWELS}])")
_LATIN_VOWEL = re.compile(rf"[lI|1丨r](?<=[{_LEADS}].)(?![a-z])")
_LATIN_VOWELS = {"r": "\u1161"}
_TAIL_OF = dict(zip("ᄀᄁᄂᄃᄅᄆᄇᄉᄊᄋᄌᄎᄏᄐᄑᄒ", "ᆨᆩᆫᆮᆯᆷᆸᆺᆻᆼᆽᆾᆿᇀᇁᇂ", strict=True))
_DOUBLE_TAILS = {
    first + second: tail
    for first, second, tail in zip("ᄀᄂᄂᄅᄅᄅᄅᄅᄅᄅᄇ", "ᄉᄌᄒᄀᄆᄇᄉᄐᄑᄒᄉ", "ᆪᆬᆭᆰᆱᆲᆳᆴᆵᆶᆹ", strict=True)
}
_DOUBLE_VOWELS = {"ᅩᅡ": "ᅪ", "ᅩᅢ": "ᅫ", "ᅩᅵ": "ᅬ", "ᅮᅥ": "ᅯ", "ᅮᅦ": "ᅰ", "ᅮᅵ": "ᅱ", "ᅳᅵ": "ᅴ"}
_LOOSE_VOWEL = re.compile(rf"[{_VOWELS}](?<=[가-힣].)[{_VOWELS}]*")

_STRETCHING = "아애야어에여오요우유으이"  # silent lead, vowel, no tail
_BLOOMING = re.compile(
    r"피(?<=[이가꽃에도]\s.)(?:는|고|며|면|기)(?![가-힣])|피는(?=\s+[가-힣]*(?:꽃|봄|장미|연기))"
)


def has_loose_jamo(text: str) -> bool:
    """Return whether a text, before NFKD, holds jamo that are not part of a syllable."""
    return _LOOSE.search(text) is not None


def has_hangul(text: str) -> bool:
    """Return whether a text holds syllables."""
    return not text.isascii() and _SYLLABLE.search(text) is not None


def part_jamo(text: str, near: str, most: int | None) -> tuple[str, str]:
    """Return a text without its words with loose jamo, and these words as syllables, in both readings.

    ㅅㅔㄱㅅㅡ and 세ㄱ스 are 섹스; 섹스ㅋ is 섹슼, or 섹스 with a consonant that means nothing. If such
    words have more than `most` characters, the first and the last are read. Jamo with signs between them are
    searched for only in `near`.
    """
    codes = codes_of(text)
    first, last = _words_with_loose(codes)
    inside = within(len(codes), first, last)
    loose = list(dict.fromkeys(text_of(np.where(inside, codes, SPACE)).split()))
    loose += [_APART.sub("", run) for run in _TYPED_APART.findall(near)]
    decomposed = unicodedata.normalize("NFKD", "\n".join(bounded(loose, most)))
    joined, lone = _compose(decomposed), _compose_without_lone(decomposed)
    if lone != joined:
        pairs = zip(lone.split("\n"), joined.split("\n"), strict=True)
        joined = "\n".join((joined, *[one for one, other in pairs if one != other]))
    inside[first] = False
    others = codes.copy()
    others[first] = SPACE
    return text_of(others[~inside]), joined


def _words_with_loose(codes: Codes) -> tuple[Places, Places]:
    """Return the first and the last places of the words that hold a jamo.

    Characters that look like a vowel belong to the word.
    """
    kinds = kinds_of(codes)
    jamo = np.flatnonzero(kinds & LOOSE)
    hangul = kinds & (KOREAN | LOOSE) != 0
    ends = runs(kinds & (KOREAN | LOOSE | LIKE_VOWEL) != 0)[1]
    end_of_jamo = ends[np.searchsorted(ends, jamo)]
    first = np.flatnonzero(np.diff(end_of_jamo, prepend=-1))  # the first jamo before each end
    starts = runs(hangul)[0]
    return starts[np.searchsorted(starts, jamo[first], side="right") - 1], end_of_jamo[first]


def _compose(decomposed: str) -> str:
    """Return jamo in NFKD as syllables, with the consonants between two syllables as tails."""
    tails = _tails()
    mended = _LATIN_VOWEL.sub(lambda found: _LATIN_VOWELS.get(found[0], "\u1175"), decomposed)
    for pair, vowel in _DOUBLE_VOWELS.items():
        mended = mended.replace(pair, vowel)
    return _LOOSE_VOWEL.sub(
        "", unicodedata.normalize("NFC", _TAIL.sub(lambda found: tails[found[0]], mended))
    )


def _compose_without_lone(decomposed: str) -> str:
    """Return jamo in NFKD as syllables, without the consonants that stand alone."""
    return _LOOSE_VOWEL.sub("", unicodedata.normalize("NFC", _LONE.sub("", decomposed)))


@cache
def _tails() -> dict[str, str]:
    """Return the tail that each lead, or two of them, become."""
    leads = [chr(code) for code in range(0x1100, 0x1113)]
    pairs = {first + second: _TAIL_OF.get(first, first) + second for first in leads for second in leads}
    return {lead: _TAIL_OF.get(lead, lead) for lead in leads} | pairs | _DOUBLE_TAILS


@cache
def _stretched_vowel() -> re.Pattern[str]:
    """Match 으 after a syllable with the vowel ㅡ and no tail, and so for the other vowels."""
    branches = []
    for syllable in _STRETCHING:
        vowel = (ord(syllable) - 0xAC00) // 28 % 21
        same = "".join(chr(0xAC00 + (lead * 21 + vowel) * 28) for lead in range(19))
        branches.append(f"{syllable}(?<=[{same}]{syllable})")
    return re.compile("|".join(branches))


def words_with_stretched_vowels(text: str) -> str:
    """Return the chunks of a text that have stretched vowels, without them: 누드 for 누우우드."""
    shorter = _stretched_vowel().sub("", text)
    if shorter == text:
        return ""
    pairs = zip(text.split(), shorter.split(), strict=True)
    return "\n".join([other for one, other in pairs if one != other])


def without_blooming(text: str) -> str:
    """Return a text without forms of the verb 피다 "to bloom" that look like 피 "blood" with a particle."""
    return _BLOOMING.sub(" ", text) if "피" in text else text


_VERBAL = re.compile(
    r"(?:하|한|할|함|해|했|합|되|된|될|됨|돼|됐|당하|당한|당할|당해|당했|시키|시킨|시켜|적|스러|스럽|스런)[가-힣]*|님|씨"
)


@cache
def _particles() -> tuple[frozenset[str], frozenset[str]]:
    """Return what may follow a noun of one syllable, and a longer noun: 들, a particle, two particles."""
    data = {name: words.split() for name, words in read_lists("korean_particles.toml").items()}
    stacked = {first + second for first in data["stacking"] for second in data["second"]}
    every = {plural + one for plural in ("", "들") for one in {"", *data["first"], *stacked}}
    return frozenset({"", *data["after_one_syllable"]}), frozenset(every)


def is_ending(rest: str, noun: str) -> bool:
    """Return whether `rest` may follow `noun` in one word.

    It may be a particle; after several syllables also 님, 씨, or a form of 하다, 되다, 적 or the like.
    """
    after_one, after_more = _particles()
    if len(noun) == 1:
        return rest in after_one
    return rest in after_more or _VERBAL.fullmatch(rest) is not None
