"""Who comes to an engine and when: open-loop Poisson arrivals of several users, the same for every policy."""

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
"""The steps that people ask for, each as likely as the others. Every number from 4 to 50 alike would end an
ideal whole batch of eight earlier: 1.68 times the work of its pictures instead of 1.84 times."""


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """A picture that `user` asks for at the time `at`, in seconds from the start; `seed` is its own."""

    at: float
    user: int
    seed: int
    steps: int


@dataclass(frozen=True, kw_only=True)
class Served:
    """What became of an arrival: it sat down at `seated` and was answered at `finished`.

    `worked` is the processor time of a real engine's process until then, in seconds.
    """

    arrival: Arrival
    seated: float
    finished: float
    worked: float = 0.0

    @property
    def latency(self) -> float:
        """From asking to the answer, in seconds."""
        return self.finished - self.arrival.at

    @property
    def waited(self) -> float:
        """From asking to a seat, in seconds."""
        return self.seated - self.arrival.at


def poisson(mix: Sequence[int], *, count: int, rate: float, seed: int = 1) -> list[Arrival]:
    """Return `count` arrivals, `rate` in a second on average.

    Another rate stretches the same gaps: who comes and what they ask for stays.
    """
    draw = random.Random(seed)
    gaps = (draw.expovariate(1.0) / rate for _ in range(count))
    people = _people(mix, seed=seed)
    return [
        Arrival(at=at, user=user, seed=number, steps=steps)
        for number, (at, (user, steps)) in enumerate(zip(itertools.accumulate(gaps), people, strict=False))
    ]


def backlog(mix: Sequence[int], *, count: int, seed: int = 1) -> list[Arrival]:
    """Return `count` arrivals that are all there at the start: a full queue."""
    people = itertools.islice(_people(mix, seed=seed), count)
    return [
        Arrival(at=0.0, user=user, seed=number, steps=steps) for number, (user, steps) in enumerate(people)
    ]


def _people(mix: Sequence[int], *, seed: int) -> Iterator[tuple[int, int]]:
    draw = random.Random(f"people {seed}")
    while True:
        yield draw.randrange(USERS), draw.choice(mix)
