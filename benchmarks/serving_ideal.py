"""Ideal serving: an evaluation takes the same time for all seats, and all other work takes no time.

It is the upper bound of the policies, with which the real and the simulated engine are compared. The seats
may belong to several `slices` of a CPU: a slice without work lends its core to the others, so that their
evaluations take proportionally less time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from serving_arrivals import ServedArrival, TimedArrival


@dataclass(kw_only=True)
class _Seated:
    arrival: TimedArrival
    at: float
    left: int
    slice: int


def step_level(
    arrivals: Sequence[TimedArrival], *, seats: int, evaluation: float = 1.0, slices: int = 1
) -> list[ServedArrival]:
    """Serve with admission between any two evaluations; a picture is answered after its last evaluation."""
    served: list[ServedArrival] = []
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
                served.append(ServedArrival(arrival=each.arrival, seated=each.at, finished=now))
        seated = [each for each in seated if each.left]
    return served


def whole_batch(
    arrivals: Sequence[TimedArrival],
    *,
    seats: int,
    batch_wait: float,
    evaluation: float = 1.0,
    slices: int = 1,
) -> list[ServedArrival]:
    """Serve batches that are full or whose oldest image has waited enough; a batch runs to its longest."""
    served: list[ServedArrival] = []
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
        served += [ServedArrival(arrival=arrival, seated=now, finished=end) for arrival in batch]
        now = end
    return served
