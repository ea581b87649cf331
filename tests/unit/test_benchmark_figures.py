"""The figures that benchmarks print."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from faults import tell_milliseconds
from percentiles import percentile


@pytest.mark.parametrize(
    ("count", "percent", "rank"),
    [
        (200, 99, 198),
        (201, 99, 199),
        (100, 99, 99),
        (20, 95, 19),
        (3, 50, 2),
        (4, 50, 2),
        (7, 100, 7),
        (1, 0, 1),
    ],
)
def test_a_percentile_is_the_nearest_rank(count: int, percent: int, rank: int) -> None:
    assert percentile(range(count, 0, -1), percent) == rank


def test_a_run_without_an_answer_has_a_sentence() -> None:
    assert tell_milliseconds([]) == "no answer at all"
    assert tell_milliseconds([0.1, 0.2]).startswith("p50 100 ms, p95 200 ms")
