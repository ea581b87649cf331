"""Percentiles of measured values."""

from __future__ import annotations

from collections.abc import Sequence


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the smallest value that at least `percent` % of the values do not exceed (the nearest rank).

    Raises IndexError without values.
    """
    rank = -(-percent * len(values) // 100)
    return sorted(values)[max(0, rank - 1)]
