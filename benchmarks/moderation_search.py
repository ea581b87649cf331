"""A search for the texts that take the search for moderators' terms longest.

    python benchmarks/moderation_search.py [--seconds 120] [--length 10000] [--seed 1] [--save FILE]

A text is drawn from kinds of pieces by weights: letters and signs of many scripts, combining marks, terms,
beginnings of terms. Some texts repeat a short beginning. Hill climbing changes the weights and keeps a change
that makes the search slower. After many changes without success it starts again with other weights. The time
of a text is the longer one of two searches, both to the end of the text: the terms of `moderation.py`, and
the hard rule. Times are of the thread's processor, the least of three, since other work only adds to them.
Printed are the worst texts that were found, measured again: the least and the median of 25.
"""

from __future__ import annotations

import argparse
import json
import random
import string
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from conditions import Stolen, print_conditions
from moderation import SURROGATES, list_of_terms, measured

from bot.moderation import Terms, hard_rule

PATIENCE = 40  # changes in a row that made nothing slower
PRINTED, AGAIN = 8, 25
GOAL = 5.0  # ms

Draw = Callable[[random.Random], str]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a text is drawn: weights by kind of piece; `cycle` is the length of the part that it repeats."""

    weights: dict[str, float]
    cycle: int
    seed: int


def among(*pieces: str) -> Draw:
    return lambda chance: chance.choice(pieces)


def within(*spans: tuple[int, int]) -> Draw:
    """Return a draw of characters by the first and the last code of each span."""
    characters = [chr(code) for first, last in spans for code in range(first, last + 1)]
    return among(*(each for each in characters if ord(each) not in SURROGATES))


def signs_and_letters() -> dict[str, Draw]:
    """Return the kinds of pieces of one character or few."""
    return {
        "a space": among(" "),
        "two spaces": among("  "),
        "a line break": among("\n", "\t"),
        "small letters": among(*string.ascii_lowercase),
        "capitals": among(*string.ascii_uppercase),
        "capital I": among("I"),
        "digits": among(*string.digits),
        "0 and 1": among("0", "1"),
        "signs": among(*string.punctuation),
        "listing": among(*',;:()[]{}<>"/\\。、'),
        "shapes": among(*"@$!|+"),
        "masks": among(*"*#%"),
        "apostrophes": among(*"'’ʼ`´"),
        "pictures of letters": among("||", "()", "[]", "\\/\\/", "/\\", "\\/", "|-|", "vv"),
        "combining marks": within((0x300, 0x36F)),
        "zero-width": among(*"\u200b\u200c\u200d\u2060\ufeff\u00ad\u034f\u3164\ufe0f"),
        "Latin beyond ASCII": within((0xC0, 0x24F), (0x1E00, 0x1EFF)),
        "Greek and Cyrillic": within((0x370, 0x4FF)),
        "wide forms": within((0xFF01, 0xFF9F)),
        "compatibility": within((0x2070, 0x2BFF), (0x3200, 0x33FF)),
        "Arabic": within((0x620, 0x64A)),
        "Arabic clitics": among(*"وفبلكا"),
        "Arabic yeh": among(*"ىي"),
        "Arabic variants": within((0x66E, 0x6D3), (0x6F0, 0x6FF)),
        "Arabic marks": within((0x64B, 0x65F)),
        "Arabic forms": within((0xFB50, 0xFDFF), (0xFE70, 0xFEFC)),
        "syllables": within((0xAC00, 0xD7A3)),
        "silent vowels": among(*"아애야어에여오요우유으이"),
        "the syllable pi": among("피"),
        "jamo": within((0x3131, 0x318E)),
        "conjoining jamo": within((0x1100, 0x11FF), (0xA960, 0xA97C), (0xD7B0, 0xD7FB)),
        "wide jamo": within((0xFFA1, 0xFFDC)),
        "Latin as vowels": among(*"lI1丨r|"),
        "Han": within((0x4E00, 0x9FA5)),
        "kana": within((0x3041, 0x30FF)),
        "Han numbers": among(*"零一二三四五六七八九十百"),
        "Indian scripts": within((0x900, 0xDFF)),
        "the basic plane": within((0x20, 0xFFFF)),
        "letters of mathematics": within((0x1D400, 0x1D7FF)),
        "circles and flags": within((0x1F100, 0x1F251)),
        "emoji": within((0x1F300, 0x1F6FF)),
        "other planes": within((0x10000, 0x10FFFF)),
        "surrogates": among(*map(chr, SURROGATES)),
    }


def forms_of(terms: Sequence[str]) -> dict[str, Draw]:
    """Return the kinds of pieces that are made of terms."""

    def split(chance: random.Random) -> str:
        return chance.choice(".- *ㅋ\u0301").join(chance.choice(terms))

    return {
        "terms": among(*terms),
        "beginnings": among(*(term[:-1] for term in terms)),
        "ends": among(*(term[1:] for term in terms)),
        "halves": among(*(term[: max(1, len(term) // 2)] for term in terms)),
        "split terms": split,
        "stretched terms": among(*("".join(2 * letter for letter in term) for term in terms)),
        "characters of terms": among(*sorted(set("".join(terms)))),
    }


def text_of(recipe: Recipe, kinds: dict[str, Draw], length: int) -> str:
    """Return the text of a recipe, of `length` characters."""
    chance = random.Random(recipe.seed)
    wanted, made, pieces = recipe.cycle or length, 0, []
    names, weights = list(recipe.weights), list(recipe.weights.values())
    while made < wanted:
        for name in chance.choices(names, weights, k=wanted - made):
            pieces.append(kinds[name](chance))
            made += len(pieces[-1])
            if made >= wanted:
                break
        else:
            made = max(made, sum(map(len, pieces))) or wanted
    text = "".join(pieces)[:wanted] or " "
    return (text * (length // len(text) + 1))[:length]


def any_recipe(kinds: dict[str, Draw], chance: random.Random) -> Recipe:
    names = chance.sample(sorted(kinds), chance.choice((1, 2, 3, 4, 6)))
    cycle = chance.choice((0, 0, 0, chance.randrange(2, 400)))
    weights = {name: chance.choice((1.0, 2.0, 4.0)) for name in names}
    return Recipe(weights=weights, cycle=cycle, seed=chance.randrange(1 << 30))


def changed(recipe: Recipe, kinds: dict[str, Draw], chance: random.Random) -> Recipe:
    """Return a recipe with one change: another cycle, or with a new seed another weight or set of kinds."""
    weights = dict(recipe.weights)
    name = chance.choice(sorted(weights))
    match chance.randrange(6):
        case 0 if len(weights) > 1:
            del weights[name]
        case 0 | 1 | 2:
            weights[chance.choice(sorted(kinds))] = chance.choice((0.3, 1.0, 3.0))
        case 3 | 4:
            weights[name] *= chance.choice((0.2, 0.5, 2.0, 5.0))
        case _:
            return replace(recipe, cycle=chance.choice((0, 0, chance.randrange(2, 2000))))
    return replace(recipe, weights=weights, seed=chance.randrange(1 << 30))


class Search:
    """Texts, their times, and the worst of them."""

    def __init__(self, terms: Sequence[str], length: int) -> None:
        self.length = length
        self.kinds = signs_and_letters() | forms_of([term for term in terms if len(term) > 1])
        self.found: list[tuple[float, Recipe]] = []  # the worst of each climb
        self.tried = 0
        self._searches = (Terms(terms).find_all, hard_rule().matches)

    def milliseconds(self, text: str) -> float:
        """Return the time of the longer search: the least of three."""
        return max(min(measured(search, text) for _ in range(3)) for search in self._searches)

    def climb(self, chance: random.Random, until: float) -> None:
        """Change a recipe until `PATIENCE` changes in a row make it no slower, or until this time."""
        best, slowest, failed = any_recipe(self.kinds, chance), 0.0, 0
        other = best
        while failed < PATIENCE and time.monotonic() < until:
            self.tried += 1
            needed = self.milliseconds(text_of(other, self.kinds, self.length))
            failed = 0 if needed > 1.01 * slowest else failed + 1
            if needed > slowest:
                best, slowest = other, needed
            other = changed(best, self.kinds, chance)
        self.found.append((slowest, best))

    def print_worst(self) -> None:
        """Print the worst texts, each measured again."""
        for _, recipe in sorted(self.found, key=lambda each: -each[0])[:PRINTED]:
            text = text_of(recipe, self.kinds, self.length)
            times = [sorted(measured(search, text) for _ in range(AGAIN)) for search in self._searches]
            own, always = (f"{each[0]:5.2f} ms, median {each[AGAIN // 2]:5.2f}" for each in times)
            every = sum(recipe.weights.values())
            pieces = ", ".join(
                f"{name} {weight / every:.0%}"
                for name, weight in sorted(recipe.weights.items(), key=lambda each: -each[1])
            )
            repeated = f", {recipe.cycle} characters repeated" if recipe.cycle else ""
            print(f"terms {own}; hard rule {always}: {pieces}{repeated}")


def main() -> None:
    """Search for a time, and print the worst texts found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--length", type=int, default=10_000)
    parser.add_argument("--terms", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", type=Path, help="write the worst text of each climb to this JSON file")
    options = parser.parse_args()
    print_conditions("sdjax-bot")
    stolen, chance = Stolen(), random.Random(options.seed)
    search = Search(list_of_terms(options.terms), options.length)
    search.milliseconds("b1 가ㄱ 中 ع f*x")
    until = time.monotonic() + options.seconds
    while time.monotonic() < until:
        search.climb(chance, until)
    search.print_worst()
    if options.save:
        texts = [text_of(recipe, search.kinds, search.length) for _, recipe in search.found]
        options.save.write_text(json.dumps(texts))
    above = sum(slowest > GOAL for slowest, _ in search.found)
    print(
        f"{search.tried} texts in {len(search.found)} climbs, {above} of them to a text above {GOAL:g} ms; "
        f"stolen by other machines: {stolen.share():.1%}"
    )


if __name__ == "__main__":
    main()
