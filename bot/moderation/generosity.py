"""Which of several values of a policy's key is the most generous, and what a bound leaves of a value."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

NO_LIMIT = math.inf
ANY = "*"  # in a tuple of names: all of them


class Privacy(StrEnum):
    """Whether results may be private, from the most generous: the person's choice, always, never."""

    FREE = "free"
    ALWAYS = "always"
    NEVER = "never"


class Treatment(StrEnum):
    """How a flagged picture is treated, from the most generous; one on hold waits for a moderator."""

    SHOW = "show"
    SPOILER = "spoiler"
    HOLD = "hold"
    WITHHOLD = "withhold"


@dataclass(frozen=True, kw_only=True)
class Order:
    """How values of one key compare: `generous` of several, `severe` of a value and its bound."""

    generous: Callable[[Sequence[Any]], Any]
    severe: Callable[[Any, Any], Any]


def _union(values: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name for value in values for name in value))
    return (ANY,) if ANY in names else names


def _intersection(value: tuple[str, ...], bound: tuple[str, ...]) -> tuple[str, ...]:
    if ANY in bound:
        return value
    return bound if ANY in value else tuple(name for name in value if name in bound)


def _rank(value: StrEnum) -> int:
    return list(type(value)).index(value)


def _mildest(values: Sequence[tuple[StrEnum, ...]]) -> tuple[StrEnum, ...]:
    return tuple(min(level, key=_rank) for level in zip(*values, strict=True))


def _strictest(value: tuple[StrEnum, ...], bound: tuple[StrEnum, ...]) -> tuple[StrEnum, ...]:
    return tuple(max(level, key=_rank) for level in zip(value, bound, strict=True))


MORE = Order(generous=max, severe=min)
LESS = Order(generous=min, severe=max)
NAMES = Order(generous=_union, severe=_intersection)
RANKED = Order(
    generous=lambda values: min(values, key=_rank), severe=lambda value, bound: max(value, bound, key=_rank)
)
LEVELS = Order(generous=_mildest, severe=_strictest)
FIRST = Order(generous=lambda values: values[0], severe=lambda _value, bound: bound)

ORDERS: Mapping[str, Order] = {
    "paint": MORE,  # yes is more than no
    "models": NAMES,
    "pixels": MORE,
    "steps": MORE,
    "variants": MORE,
    "loras": NAMES,
    "start_pictures": MORE,
    "private": RANKED,
    "previews": MORE,
    "review": LESS,
    "flagged": LEVELS,
    "flagged_spoiler": LEVELS,
    "flagged_age_restricted": LEVELS,
    "pictures_per_hour": MORE,
    "pictures_per_day": MORE,
    "cost_per_hour": MORE,
    "cost_per_day": MORE,
    "cool_down": LESS,
    "weight": MORE,
    "language": FIRST,  # of the role with the smallest id
}
"""The order of each key's values."""
