"""What was measured lately: a quantile of the last values, which a few outliers do not move."""

from __future__ import annotations

from collections import deque

REMEMBERED = 32


class RecentQuantile:
    """The last 32 values; `quantile` is the share of them below the one in question, from 0 to 1."""

    def __init__(self, *, quantile: float) -> None:
        self._quantile = quantile
        self._values: deque[float] = deque(maxlen=REMEMBERED)

    def add(self, value: float) -> None:
        """Remember one more value, and forget the oldest."""
        self._values.append(value)

    @property
    def value(self) -> float | None:
        """The quantile; None before the first value."""
        if not self._values:
            return None
        return sorted(self._values)[round(self._quantile * (len(self._values) - 1))]
