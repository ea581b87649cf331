"""How bad a picture is, on four levels; no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from sdjax_engine.request import PictureScores

DEFAULT_THRESHOLD = 0.5


class Level(StrEnum):
    """The level of a picture, from harmless to worst."""

    NONE = "none"
    MILD = "mild"
    EXPLICIT = "explicit"
    EXTREME = "extreme"

    @property
    def number(self) -> int:
        """0 for a harmless picture, up to 3."""
        return list(Level).index(self)


def level_of(scores: PictureScores, levels: Mapping[str, Level], threshold: float) -> Level:
    """Sum the probabilities from the worst level down; return the level at which the sum reaches `threshold`.

    `levels` has each label's level. For two labels and a threshold of 0.5 that is the likelier label's.
    """
    by_level = dict.fromkeys(Level, 0.0)
    for label, probability in scores.by_label.items():
        by_level[levels[label]] += probability
    found = 0.0
    for level in reversed(Level):
        found += by_level[level]
        if found >= threshold:
            return level
    return Level.NONE
