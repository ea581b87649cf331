"""The time of the search for moderators' terms, compared with one plain pattern of the same terms.

    python benchmarks/moderation.py [--rounds 40] [--terms 200] [--length 10000]

The terms are those of tests/unit/moderation/lists, plus invented words. The peer is Python's re: all terms in
one pattern with | between them, on the case-folded text; it finds no evasions. Compilation is measured apart.
A round measures every text once with both. Times are of the thread's processor; printed are medians, worst
times and ratios of medians. A text is searched to its end even after a term is found.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import string
import time
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

from conditions import Stolen, print_conditions

from bot.moderation import Terms, hard_rule

LISTS = Path(__file__).parents[1] / "tests" / "unit" / "moderation" / "lists"
LANGUAGES = ("en", "ko", "zh", "ar")
SURROGATES = range(0xD800, 0xE000)


def prompts() -> dict[str, tuple[dict[str, list[str]], list[str]]]:
    """Return the evasions by term, and the innocent prompts, of each language."""
    files = {name: tomllib.loads((LISTS / f"{name}.toml").read_text(encoding="utf-8")) for name in LANGUAGES}
    return {name: (data["evasions"], data["innocent"]) for name, data in files.items()}


def list_of_terms(count: int) -> list[str]:
    """Return `count` terms: the terms of the lists, then invented words."""
    chance = random.Random(1)
    terms = [term for evasions, _ in prompts().values() for term in evasions]
    while len(terms) < count:
        terms.append("".join(chance.choice("bdfgklmnprst") + chance.choice("aeiou") for _ in range(3)) + "x")
    return terms[:count]


def repeated(pattern: str, length: int) -> str:
    return (pattern * (length // len(pattern) + 1))[:length]


def hostile_texts(terms: Sequence[str], length: int) -> dict[str, str]:
    """Return texts that are slow for backtracking matchers."""
    chance = random.Random(2)
    planes = [chr(code) for code in range(0x20, 0x10000) if code not in SURROGATES]
    beginnings = [term[:-1] for term in terms if len(term) > 1]
    return {
        "nested repetition": repeated("a" * 50 + "b", length),
        "one letter": "a" * length,
        "one word": repeated("as ", length),
        "combining marks": repeated("\u0301\u0323", length),
        "a letter and a mark": repeated("b\u0301", length),
        "zero-width characters": repeated("b\u200d", length),
        "alternating signs": repeated("b.", length),
        "alternating spaces": repeated("b l ", length),
        "digits beside letters": repeated("b1", length),
        "brackets": "(" * length,
        "beginnings of all terms": repeated(" ".join(beginnings) + " ", length),
        "the same, joined": repeated("".join(beginnings), length),
        "the same, with signs": repeated(" ".join(map(".".join, beginnings)) + " ", length),
        "a word of a phrase": repeated("dead school ", length),
        "harmless phrases": repeated("nude lipstick, child, ", length),
        "ages that go on": repeated("二十五岁 裸体 ", length),
        "accidents of Chinese": repeated("红色情人节", length),
        "syllables apart": repeated("자 살 고 ", length),
        "jamo": repeated("ㅅㅔㄱ", length),
        "random letters": "".join(chance.choices(string.ascii_letters + " ", k=length)),
        "random ASCII": "".join(chance.choices(string.printable, k=length)),
        "random Han": "".join(chr(chance.randrange(0x4E00, 0x9FA6)) for _ in range(length)),
        "random syllables": "".join(chr(chance.randrange(0xAC00, 0xD7A4)) for _ in range(length)),
        "random, basic plane": "".join(chance.choices(planes, k=length)),
        "random, beyond it": "".join(chr(chance.randrange(0x10000, 0x110000)) for _ in range(length)),
    }


def measured(search: Callable[[str], object], text: str) -> float:
    """Return the milliseconds of one search."""
    begun = time.thread_time()
    search(text)
    return 1e3 * (time.thread_time() - begun)


def print_times(
    texts: dict[str, str], ours: Callable[[str], object], peer: Callable[[str], object], rounds: int
) -> float:
    """Print the times of each text; return the worst median."""
    own_times: dict[str, list[float]] = {name: [] for name in texts}
    peer_times: dict[str, list[float]] = {name: [] for name in texts}
    for _ in range(rounds):
        for name, text in texts.items():
            own_times[name].append(measured(ours, text))
            peer_times[name].append(measured(peer, text))
    for name in texts:
        own, other = statistics.median(own_times[name]), statistics.median(peer_times[name])
        print(
            f"{name:26} {own:7.3f} ms, worst {max(own_times[name]):7.3f}; "
            f"re {other:7.3f} ms, worst {max(peer_times[name]):7.3f}; ratio {own / other:6.2f}"
        )
    return max(statistics.median(times) for times in own_times.values())


def print_quality(name: str, find_all: Callable[[str], Sequence[str]]) -> None:
    """Print the shares of evasions in which the hidden term is found, and of innocent prompts without any."""
    shares = []
    for language, (evasions, innocent) in prompts().items():
        pairs = [(term, text) for term, texts in evasions.items() for text in texts]
        caught = sum(term.casefold() in map(str.casefold, find_all(text)) for term, text in pairs)
        passed = sum(not find_all(text) for text in innocent)
        shares.append(f"{language} {caught}/{len(pairs)} and {passed}/{len(innocent)}")
    print(f"{name}: caught and passed: {'; '.join(shares)}")


def main() -> None:
    """Print the times of compilation, ordinary prompts and hostile texts, and the quality."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--terms", type=int, default=200)
    parser.add_argument("--length", type=int, default=10_000)
    options = parser.parse_args()
    print_conditions("sdjax-bot")
    stolen = Stolen()
    words = list_of_terms(options.terms)
    first = measured(lambda text: Terms(words).find_all(text), "b1 가ㄱ 中 ع f*x")
    again = measured(lambda text: Terms(words).find_all(text), "b1 가ㄱ 中 ع f*x")
    pattern = re.compile("|".join(re.escape(word.casefold()) for word in words))
    print(f"{len(words)} terms: the first search of a process {first:.1f} ms, a new list {again:.1f} ms")

    terms = Terms(words)
    ordinary = {
        f"{language}, {len(text)} characters": text
        for language, (_, innocent) in prompts().items()
        for text in (innocent[0], ", ".join(innocent[:12]))
    }
    print_times(ordinary, terms.find_all, lambda text: pattern.findall(text.casefold()), options.rounds)
    print_times(
        {"the hard rule, 200 chars": ", ".join(prompts()["en"][1])[:200]},
        hard_rule().matches,
        lambda text: pattern.findall(text.casefold()),
        options.rounds,
    )
    print(f"hostile texts of {options.length} characters")
    texts = hostile_texts(words, options.length)
    worst = print_times(texts, terms.find_all, lambda text: pattern.findall(text.casefold()), options.rounds)
    print(f"worst median {worst:.2f} ms")
    print("the same texts, the hard rule")
    worst = print_times(
        texts, hard_rule().matches, lambda text: pattern.findall(text.casefold()), options.rounds
    )
    print(f"worst median {worst:.2f} ms")
    print_quality("ours", terms.find_all)
    print_quality("re", lambda text: pattern.findall(text.casefold()))
    print(f"stolen by other machines: {stolen.share():.1%}")


if __name__ == "__main__":
    main()
