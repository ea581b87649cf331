"""Serving that costs nothing but evaluations: each takes the same time for all seats, everything else none.

What the policies could reach at best; the engine, real or on simulated devices, is measured against it.
The seats may be those of several `slices` of a CPU: one with nobody left lends its core to the others, so
that an evaluation takes as much less time as there are slices without work.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from serving_arrivals import Arrival, Served


@dataclass(kw_only=True)
class _Seated:
    arrival: Arrival
    at: float
    left: int
    slice: int


def step_level(
    arrivals: Sequence[Arrival], *, seats: int, evaluation: float = 1.0, slices: int = 1
) -> list[Served]:
    """Anybody sits down between any two evaluations, and is answered the moment theirs are made."""
    served: list[Served] = []
    coming, seated, now = deque(arrivals), list[_Seated](), 0.0
    while coming or seated:
        if not seated:
            now = max(now, coming[0].at)
        while coming and coming[0].at <= now and len(seated) < seats:
            arrival = coming.popleft()
            emptiest = min(range(slices), key=[each.slice for each in seated].count)
            seated.append(_Seated(arrival=arrival, at=now, left=arrival.steps, slice=emptiest))
        now += evaluation * len({each.slice for each in seated}) / slices
        for each in seated:
            each.left -= 1
            if not each.left:
                served.append(Served(arrival=each.arrival, seated=each.at, finished=now))
        seated = [each for each in seated if each.left]
    return served


def whole_batch(
    arrivals: Sequence[Arrival], *, seats: int, batch_wait: float, evaluation: float = 1.0, slices: int = 1
) -> list[Served]:
    """Full batches, or those whose oldest has waited, each run whole: as long as its longest takes."""
    served: list[Served] = []
    coming, now = deque(arrivals), 0.0
    while coming:
        full = coming[seats - 1].at if len(coming) >= seats else float("inf")
        now = max(now, min(full, coming[0].at + batch_wait))
        batch = []
        while coming and coming[0].at <= now and len(batch) < seats:
            batch.append(coming.popleft())
        apart = (batch[first::slices] for first in range(slices))
        evaluations = sum(max((each.steps for each in those), default=0) for those in apart) / slices
        end = now + evaluation * evaluations
        served += [Served(arrival=arrival, seated=now, finished=end) for arrival in batch]
        now = end
    return served
