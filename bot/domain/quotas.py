"""Quotas limit what a person asks for within some time, caps what waits at once; no I/O."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

LITTLE = 0.2  # of a quota; a person is told if no more than this is left
_ROUNDING = 1e-6


class Measure(StrEnum):
    """What a quota counts. A cool-down is a quota of one request."""

    PICTURES = "pictures"
    COST = "cost"
    REQUESTS = "requests"


@dataclass(frozen=True, kw_only=True)
class Quota:
    """At most `limit` of a measure within `seconds`.

    It counts requests in the channel and its threads; without a `channel_id`, in the server; without a
    `guild_id` too, everywhere. `key` is the policy's key.
    """

    key: str
    measure: Measure
    limit: float
    seconds: float
    guild_id: int = 0
    channel_id: int = 0


@dataclass(frozen=True, kw_only=True)
class Charge:
    """What a request counts against quotas: `pictures`, each of which has this `cost`."""

    pictures: int = 0
    cost: float = 0.0
    quotas: tuple[Quota, ...] = ()

    def of(self, measure: Measure) -> float:
        """Return how much of a measure the request counts."""
        counted = {Measure.PICTURES: float(self.pictures), Measure.COST: self.pictures * self.cost}
        return counted.get(measure, 1.0)


@dataclass(frozen=True, kw_only=True)
class Left:
    """What is left of a quota."""

    quota: Quota
    left: float

    @property
    def little(self) -> bool:
        """Whether so little is left that the person is told."""
        return self.quota.measure is not Measure.REQUESTS and self.left <= LITTLE * self.quota.limit


@dataclass(frozen=True, kw_only=True)
class Counted:
    """A request that counts: `amount` of a quota's measure, asked for at `at`."""

    at: float
    amount: float


@dataclass(frozen=True, kw_only=True)
class Caps:
    """How many places (`places_of`) may wait. None means no cap.

    Hard caps refuse: per person, per server (or all direct messages), and in total. The share `kept` of the
    last two is reserved for people with nothing waiting. `images_at_full_share` delays: each further waiting
    image of one person costs more of their share.
    """

    waiting_per_user: int | None = None
    waiting_per_server: int | None = None
    waiting: int | None = None
    images_at_full_share: int | None = None
    kept: float = 0.0


def is_over(used: float, wanted: float, quota: Quota) -> bool:
    """Return whether a request takes more than is left of a quota."""
    return used + wanted > quota.limit + _ROUNDING


def free_at(counted: Iterable[Counted], wanted: float, quota: Quota) -> float | None:
    """Return when a refused request has room, in seconds since the epoch; None where it never has."""
    if is_over(0.0, wanted, quota):
        return None
    ordered = sorted(counted, key=lambda each: each.at)
    used = math.fsum(each.amount for each in ordered)
    for each in ordered:
        used -= each.amount
        if not is_over(used, wanted, quota):
            return each.at + quota.seconds
    return None


def scarcest(left: Iterable[Left]) -> Left | None:
    """Return the quota of which the smallest part is left, where that is little."""
    little = [each for each in left if each.little]
    return min(
        little, key=lambda each: each.left / each.quota.limit if each.quota.limit else 0.0, default=None
    )


def with_left(policy: Mapping[str, Any], left: Iterable[Left]) -> Mapping[str, Any]:
    """Return what a job keeps of policies, with the quota that is nearly used up."""
    if (least := scarcest(left)) is None:
        return policy
    return {**policy, "left": {"key": least.quota.key, "left": least.left, "limit": least.quota.limit}}
