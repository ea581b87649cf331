"""The cost of completing a prompt's last keyword from a large file, compared with a scan of all keywords.

    python benchmarks/keywords.py [KEYWORDS]

The scan, which needs no index, compares each name and alias with the typed text and takes the most frequent.
Both give the same answers. Times are medians of 5, in milliseconds.
"""

from __future__ import annotations

import csv
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1])]

from conditions import print_conditions  # noqa: E402 - found by the line above

from bot.front.recipes.keywords import read_keywords  # noqa: E402

TYPED = ("t", "tag_1", "tag_199999", "other", "none")
MOST = 25
ROUNDS = 5


def main() -> None:
    many = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    print_conditions("discord.py")
    rows = [(f"tag_{n:06}", n * 7919 % 200_003, f"other{n}") for n in range(many)]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "keywords.csv")
        with file.open("w", newline="") as lines:
            csv.writer(lines).writerows([name, "0", count, alias] for name, count, alias in rows)
        began = time.perf_counter()
        keywords = read_keywords(str(file))
        print(f"{many:,} keywords read in {time.perf_counter() - began:.2f} s\n")
    print("| typed | answers | index | every keyword | times |\n|---|---|---|---|---|")
    rows.sort(key=lambda row: row[1], reverse=True)
    for typed in TYPED:
        indexed, ours = timed(lambda typed=typed: keywords.beginning_with(typed, most=MOST))
        looked, theirs = timed(lambda typed=typed: scanned(rows, typed))
        assert ours == theirs, typed
        print(f"| `{typed}` | {len(ours)} | {indexed:.2f} | {looked:.1f} | {looked / indexed:,.0f} |")


def scanned(rows: list[tuple[str, int, str]], typed: str) -> list[str]:
    """Return the most frequent names of which a name or an alias begins with `typed`; rows are sorted."""
    return [name for name, _, alias in rows if name.startswith(typed) or alias.startswith(typed)][:MOST]


def timed(answer: Callable[[], list[str]]) -> tuple[float, list[str]]:
    """Return the median milliseconds of an answer, and the answer."""
    seconds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        found = answer()
        seconds.append(time.perf_counter() - began)
    return 1000 * statistics.median(seconds), found


if __name__ == "__main__":
    main()
