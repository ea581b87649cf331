"""Words whose letters stand apart."""

from __future__ import annotations

import re

from bot.moderation.mending import as_letters
from bot.moderation.scripts import ARABIC, CJK, HANGUL

_LETTER = rf"[^\W_{CJK}{HANGUL}]"
_SPACED = re.compile(rf"(?<![^\W_]){_LETTER}(?:[\W_]++{_LETTER}(?![^\W_]))++")
_WIDE_GAP = re.compile(r"[^\S\n]{2,}")
_SEPARATORS = re.compile(r"(?:[^\w\n]|_)+")
_BEFORE = ("a", "i", "و")
_ONE = str.maketrans("1!|", "lll")

_SYLLABLES = re.compile(rf"(?<![^\W\d_])[{HANGUL}](?:[\W\d_]++[{HANGUL}](?![^\W\d_]))*+(?:[\W\d_]++[{HANGUL}]++)?")
_NO_HANGUL = re.compile(rf"[^{HANGUL}]+")

_SHORT_WORDS = (
    "ad|am|an|as|at|be|by|do|dr|ex|go|he|hi|if|in|is|it|la|le|me|mr|ms|my|no|of|oh|ok|on|or|pm|re|so|st|to|tv|uk|up|us|vs|we"
    "|من|في|لا|ما|هو|هي|عن|او|ان|كل|قد|لم|لن|يا|بل|ثم|مع|اذ"
)
_PIECE = rf"(?!(?:{_SHORT_WORDS})(?!\S))[a-z{ARABIC}]{{1,2}}"
_PIECES = re.compile(rf"(?<!\S){_PIECE}(?:\s{_PIECE}(?!\S)){{2,}}")
_FIRST_LETTER_APART = re.compile(r"(?<!\S)([b-hj-z])\s(?=([a-z]{2,})(?!\S))")
_LAST_LETTER_APART = re.compile(r"(?<!\S)([a-z]{2,})\s([b-hj-z])(?!\S)")


def spaced_runs(lower: str) -> list[str]:
    """Return the runs of single letters, joined: b l o o d, b . l . o . o . d; wide gaps end a run too."""
    runs = "\n".join(run.replace("\n", " ") for run in _SPACED.findall(lower))
    if _WIDE_GAP.search(runs):
        runs = "\n".join((runs, _WIDE_GAP.sub("\n", runs)))
    return _SEPARATORS.sub("", runs).split("\n") if runs else []


def spaced_syllables(lower: str) -> str:
    """Return the syllables that stand alone, and the word after them, one space between; a line for each run."""
    runs = (_NO_HANGUL.sub(" ", run) for run in _SYLLABLES.findall(lower) if len(run) > 1)
    return "\n".join(f" {run} " for run in runs)


def words_of_runs(runs: list[str]) -> list[str]:
    """Return the words that runs of single letters are: without an article, with digits as letters."""
    made = [*runs, *(run[1:] for run in runs if run.startswith(_BEFORE))]
    numbered = [run for run in made if not run.isalpha()]
    if numbered:
        joined = "\n".join(numbered)
        made += f"{as_letters(joined)}\n{as_letters(joined.translate(_ONE))}".split("\n")
    return made


def words_in_pieces(lower: str) -> list[str]:
    """Return the words that spaces split: one letter apart (b lood), or pieces of two letters (bl oo d)."""
    made = ["".join(run.split()) for run in _PIECES.findall(lower)]
    made += [first + rest for first, rest in _FIRST_LETTER_APART.findall(lower)]
    return made + [rest + last for rest, last in _LAST_LETTER_APART.findall(lower)]
