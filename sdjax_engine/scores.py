"""The result of a picture classifier for a picture, as plain data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class PictureScores:
    """The probability of each label of a picture classifier; both in the classifier's order.

    The probabilities are from 0 to 1, and their sum is 1.
    """

    labels: tuple[str, ...]
    probabilities: tuple[float, ...]

    @property
    def by_label(self) -> dict[str, float]:
        """The probabilities by their labels."""
        return dict(zip(self.labels, self.probabilities, strict=True))
