"""Prompts cleaned, and their emphasis: the weights of their parts, in the grammar of AUTOMATIC1111's web UI.

    (word)       × 1.1                        [word]        ÷ 1.1
    ((word))     × 1.21, and so on            (word:1.3)    × 1.3
    \\( \\) \\[ \\]  the bracket itself, as text  BREAK         the rest starts a new chunk

As in that web UI, an opening bracket that is never closed reaches to the end, and a closing bracket that was
never opened is text.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import ftfy

FACTORS = {"(": 1.1, "[": 1 / 1.1}
OPENINGS = {")": "(", "]": "["}
MAX_WEIGHT = 10.0

Symbol = re.Match[str]
SYMBOL = re.compile(
    r"""
      (?P<escape> (?: \\\\ )* \\ [()\[\]] )
    | (?P<slashes> (?: \\\\ )+ ) (?= [()\[\]] )
    | (?P<opening> [(\[] )
    | (?P<closing> (?: : \s* (?P<factor> [+-]? (?: \d+ (?: [.٫] \d* )? | [.٫] \d+ ) ) \s* )? \) | \] )
    | (?P<pause> \s* \b BREAK \b \s* )
    | [^\\()\[\]:\sB]+ | \s+ | \\+ | .
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A part of a prompt with one weight.

    `places` is the place of each character of `text` in the prompt. For a character after opening brackets or
    backslashes it is the place of the first of them. `breaks`: a BREAK is before the piece.
    """

    text: str
    weight: float = 1.0
    places: tuple[int, ...] = ()
    breaks: bool = False


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A prompt that is read once for every tokenizer: its cleaned text, and the parts of that in order."""

    text: str
    pieces: tuple[Piece, ...]


def read_prompt(written: str) -> Prompt:
    """Return a prompt cleaned and divided by its emphasis; every string is valid.

    Emphasis is read from the cleaned text, so that （빨강：1.3） is emphasis too.
    """
    text = clean(written)
    return Prompt(text=text, pieces=parse_emphasis(text))


def clean(text: str) -> str:
    """Return `text` with Unicode and HTML entities repaired and outer blanks removed, as in CLIP's code.

    ftfy, which CLIP's code uses, also replaces full-width letters, digits and brackets by plain ones.
    """
    return html.unescape(html.unescape(ftfy.fix_text(text))).strip()


def parse_emphasis(text: str) -> tuple[Piece, ...]:
    """Return the pieces of a prompt in order; every string is valid.

    Weights are within ±`MAX_WEIGHT`. A text without brackets and BREAK is one piece.
    """
    symbols = tuple(SYMBOL.finditer(text))
    factors, openings = matched_brackets(symbols)
    around: dict[int, float] = {}
    pieces, place = [], 0
    for index, symbol in enumerate(symbols):
        if index in factors:
            around[index] = factors[index]
            continue
        if index in openings:
            del around[openings[index]]
        elif symbol["pause"]:
            pieces.append(Piece(text="", breaks=True))
        else:
            pieces.append(spell(symbol, place, weight=bounded(math.prod(around.values(), start=1.0))))
        place = symbol.end()
    return join(pieces)


def matched_brackets(symbols: Sequence[Symbol]) -> tuple[Mapping[int, float], Mapping[int, int]]:
    """Return the factor of each opening bracket, and the opening bracket of each closing bracket.

    Brackets are named by their index among the symbols. A closing bracket closes the last open bracket of
    its kind; round and square brackets are independent.
    """
    waiting: dict[str, list[int]] = {"(": [], "[": []}
    factors: dict[int, float] = {}
    openings: dict[int, int] = {}
    for index, symbol in enumerate(symbols):
        if kind := symbol["opening"]:
            waiting[kind].append(index)
            factors[index] = FACTORS[kind]
        elif (closing := symbol["closing"]) and waiting[OPENINGS[closing[-1]]]:
            openings[index] = waiting[OPENINGS[closing[-1]]].pop()
            if symbol["factor"]:
                factors[openings[index]] = bounded(float(symbol["factor"].replace("٫", ".")))
    return factors, openings


def spell(symbol: Symbol, place: int, *, weight: float) -> Piece:
    """Return a text symbol as a piece; `place` is given as the place of its first character."""
    slashes = symbol["escape"] or symbol["slashes"] or ""
    text = slashes[1::2] or symbol[0]  # an escape: the second character is the text
    start = symbol.end() - len(text)
    return Piece(text=text, weight=weight, places=(place, *range(start + 1, symbol.end())))


def join(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    """Join neighbours of one weight, and mark the piece after a BREAK."""
    groups: list[list[Piece]] = []
    for piece in pieces:
        last = groups[-1][-1] if groups else None
        if last is None or piece.breaks or (last.text and last.weight != piece.weight):
            groups.append([])
        groups[-1].append(piece)
    return tuple(
        Piece(
            text="".join(piece.text for piece in (first, *others)),
            weight=others[-1].weight if others else first.weight,
            places=tuple(chain.from_iterable(piece.places for piece in (first, *others))),
            breaks=first.breaks,
        )
        for first, *others in groups
    )


def bounded(weight: float) -> float:
    """Return the weight limited to ±`MAX_WEIGHT`: larger weights give no usable picture in any network."""
    return max(-MAX_WEIGHT, min(MAX_WEIGHT, weight))
