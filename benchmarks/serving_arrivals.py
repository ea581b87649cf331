"""The arrivals at an engine: open-loop Poisson, of several users, the same for every policy."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

USERS = 6

MIXES: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "4-50": (4, 20, 30, 50),  # LCM and Lightning, DPM++, DDIM, the reference's default
        "20-30": (20, 25, 30),
        "equal 20": (20,),
    }
)
"""The steps of requests, all equally likely. With every number from 4 to 50 instead, an ideal whole batch of
eight would take 1.68 times the work of its pictures, not 1.84 times."""


@dataclass(frozen=True, kw_only=True)
class TimedArrival:
    """A request of `user` at the time `at`, in seconds from the start; every `seed` is different."""

    at: float
    user: int
    seed: int
    steps: int


@dataclass(frozen=True, kw_only=True)
class ServedArrival:
    """The service of an arrival: it took a seat at `seated` and was answered at `finished`.

    `worked` is the processor time of a real engine's process until `finished`, in seconds.
    """

    arrival: TimedArrival
    seated: float
    finished: float
    worked: float = 0.0

    @property
    def latency(self) -> float:
        """The seconds from the request to the answer."""
        return self.finished - self.arrival.at

    @property
    def waited(self) -> float:
        """The seconds from the request to a seat."""
        return self.seated - self.arrival.at


def poisson(mix: Sequence[int], *, count: int, rate: float, seed: int = 1) -> list[TimedArrival]:
    """Return `count` arrivals, on average `rate` a second.

    Another rate scales the same gaps: users, steps and seeds stay the same.
    """
    draw = random.Random(seed)
    gaps = (draw.expovariate(1.0) / rate for _ in range(count))
    people = _people(mix, seed=seed)
    return [
        TimedArrival(at=at, user=user, seed=number, steps=steps)
        for number, (at, (user, steps)) in enumerate(zip(itertools.accumulate(gaps), people, strict=False))
    ]


def backlog(mix: Sequence[int], *, count: int, seed: int = 1) -> list[TimedArrival]:
    """Return `count` arrivals at the time 0: a full queue."""
    people = itertools.islice(_people(mix, seed=seed), count)
    return [
        TimedArrival(at=0.0, user=user, seed=number, steps=steps)
        for number, (user, steps) in enumerate(people)
    ]


def _people(mix: Sequence[int], *, seed: int) -> Iterator[tuple[int, int]]:
    draw = random.Random(f"people {seed}")
    while True:
        yield draw.randrange(USERS), draw.choice(mix)
