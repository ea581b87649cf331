"""Words whose letters stand apart.

Texts are given as words with one space before and after each, so that the patterns begin with a space:
re finds it much faster than a class of characters or a boundary.
"""

from __future__ import annotations

import re

from bot.moderation.mending import as_letters, as_letters_with_l
from bot.moderation.scripts import ARABIC, HANGUL, numbered_words_of

_AROUND_WORDS = ',.;:!?()[]{}<>"/\\*_~`|。、'
_SPACED = re.compile(r" \S(?: \S)+(?= )")
_WIDE_GAP = re.compile("  +")
_WIDE_GAP_IN_RUN = re.compile(r" \w  +\w ")
_GAP = " \u02ee\u02ee "  # a word of two letters
_BEFORE = ("a", "i", "و")
_SYLLABLES = re.compile(rf" [{HANGUL}] (?:[{HANGUL}] )*+[{HANGUL}]*+")

_SHORT_WORDS = (
    "ad|am|an|as|at|be|by|do|dr|ex|go|he|hi|if|in|is|it|la|le|me|mr|ms|my|no|of|oh|ok|on|or|pm|re|so|st|to|tv|uk|up|us|vs|we"
    "|من|في|لا|ما|هو|هي|عن|او|ان|كل|قد|لم|لن|يا|بل|ثم|مع|اذ"
)
_PIECE = rf" (?:[a-z{ARABIC}](?= )|(?!(?:{_SHORT_WORDS}) )[a-z{ARABIC}]{{2}}(?= ))"
_PIECES = re.compile(rf"{_PIECE}(?:{_PIECE}){{2,}}")
_FIRST_LETTER_APART = re.compile(r" ([b-hj-z]) (?=([a-z]{2,}) )")
_LAST_LETTER_APART = re.compile(r" ([a-z]{2,}) ([b-hj-z])(?= )")


def spaced_runs(lower: str, words: list[str]) -> list[str]:
    """Return the runs of single letters, joined: b l o o d, b . l . o . o . d; wide gaps end a run too."""
    runs = _SPACED.findall(f" {' '.join(words)} ")
    if runs and _WIDE_GAP_IN_RUN.search(lower):
        runs += _SPACED.findall(f" {' '.join(numbered_words_of(_WIDE_GAP.sub(_GAP, lower)))} ")
    return "\n".join(runs).replace(" ", "").split("\n") if runs else []


def spaced_syllables(words: list[str]) -> str:
    """Return the syllables that stand alone, and the word after them; a line for each run."""
    return " \n".join((*_SYLLABLES.findall(f" {' '.join(words)} "), ""))


def words_of_runs(runs: list[str]) -> list[str]:
    """Return the words that runs of single letters are: without an article, with digits as letters."""
    made = [*runs, *[run[1:] for run in runs if run.startswith(_BEFORE)]]
    numbered = [run for run in made if not run.isalpha()]
    if numbered:
        joined = "\n".join(numbered)
        made += f"{as_letters(joined)}\n{as_letters_with_l(joined)}".split("\n")
    return made


def words_in_pieces(lower: str) -> list[str]:
    """Return the words that spaces split: one letter apart (b lood), or pieces of two letters (bl oo d)."""
    chunks = lower.split()
    if any(sign in lower for sign in _AROUND_WORDS):
        chunks = [chunk.strip(_AROUND_WORDS) for chunk in chunks]
    text = f" {' '.join(chunks)} "
    made = [run.replace(" ", "") for run in _PIECES.findall(text)]
    made += [run[1:] for run in made if run.startswith(_BEFORE)]
    made += [first + rest for first, rest in _FIRST_LETTER_APART.findall(text)]
    return made + [rest + last for rest, last in _LAST_LETTER_APART.findall(text)]
