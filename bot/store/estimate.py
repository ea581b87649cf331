"""When images start and end, from what has been measured; no I/O."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from bot.jobs import BATCHES_AHEAD

PLAYED_ROUNDS = 4
"""How many images for each seat are played forward one by one: behind them the seats take turns."""


MOST_OVERTAKEN = 0.2
"""At most this part of a lane is expected to go to people who come later: each of them asks only so often."""


@dataclass(frozen=True, kw_only=True)
class Ahead:
    """The waiting images of a lane that come first: how many, and their steps together.

    `lead` is how far the tag of the image behind them is over virtual time, `user_id` whose image it is.
    """

    images: int
    steps: int
    lead: float = 0.0
    user_id: int = 0


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """An image that came lately: whose, its steps, and how far its tag was over virtual time then."""

    user_id: int
    steps: int
    lead: float


@dataclass(frozen=True, kw_only=True)
class Bench:
    """One worker's seats in a lane, and the steps left of each image it has claimed, those that run first."""

    seats: int
    running: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Line:
    """A lane as it is painted now.

    `pace` is the seconds that a step of one image takes there, None before the first measurement;
    `arrivals` those of the last `seconds`.
    """

    benches: tuple[Bench, ...]
    pace: float | None
    arrivals: tuple[Arrival, ...] = ()
    seconds: float = 60.0


def overtaking(line: Line, ahead: Ahead) -> float:
    """Steps a second of people who will come later and yet go first, as many as came lately.

    Who has used less begins nearer to virtual time. It moves towards the tag of the image that waits, so
    that the room to come in before it shrinks to nothing: of those with a smaller lead a part is counted.
    """
    if ahead.lead <= 0:
        return 0.0
    steps = (
        arrival.steps * (1 - arrival.lead / ahead.lead)
        for arrival in line.arrivals
        if arrival.lead < ahead.lead and arrival.user_id != ahead.user_id
    )
    return sum(steps) / line.seconds


def seconds_to_start(line: Line, ahead: Ahead) -> float | None:
    """Seconds until the image behind all these takes a seat; None without seats or measurements.

    Lanes share the devices, but each has its own seats, and what its images take is measured while the
    others work too. So a lane is a line of its own, and it is played forward: a worker with room claims who
    is next, and seats them once those whom it claimed before have their seats. Of those that wait only the
    sum is known, so each is taken for a mean one; and of those who will come and go first what came lately.
    """
    pace = line.pace
    workers = [_Worker.of(bench, pace) for bench in line.benches if bench.seats > 0 and pace is not None]
    if not workers or pace is None:
        return None
    seats = sum(worker.seats for worker in workers)
    taken = min(MOST_OVERTAKEN, overtaking(line, ahead) * pace / seats)
    images = round(ahead.images / (1 - taken))
    rounds = max(0, images // seats - PLAYED_ROUNDS)
    each = pace * ahead.steps / max(1, ahead.images)
    for _ in range(images - rounds * seats):
        min(workers, key=_Worker.room_at).take(each)
    soonest = min(worker.room_at()[0] for worker in workers)
    starts = [worker.free_at[0] for worker in workers if worker.room_at()[0] == soonest]
    # Of workers that have room at the same moment any may claim first: the one with a free seat, or another.
    return sum(starts) / len(starts) + rounds * each


def steps_ahead(line: Line, ahead: Ahead) -> float:
    """The steps of all images that run or wait in front."""
    return ahead.steps + sum(steps for bench in line.benches for steps in bench.running)


def spans(bench: Bench, pace: float) -> list[tuple[float, float]]:
    """In how many seconds each image that a worker has claimed starts and ends, in the order of `running`."""
    worker = _Worker.of(Bench(seats=bench.seats), pace)
    found = []
    for steps in bench.running:
        start, seconds = worker.free_at[0], pace * max(0, steps)
        worker.take(seconds)
        found.append((start, start + seconds))
    return found


@dataclass(kw_only=True)
class _Worker:
    """When each seat of one worker is free, and when each image that it has claimed ends; both are heaps."""

    seats: int
    free_at: list[float]
    ends: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, bench: Bench, pace: float) -> _Worker:
        worker = cls(seats=bench.seats, free_at=[0.0] * bench.seats)
        for steps in bench.running:
            worker.take(pace * max(0, steps))
        return worker

    def room_at(self) -> tuple[float, float]:
        """When it can claim one more; of several that can, the one that can seat it first does."""
        full = len(self.ends) >= BATCHES_AHEAD * self.seats
        return (self.ends[0] if full else 0.0, self.free_at[0])

    def take(self, seconds: float) -> None:
        """Claim one more, of so many seconds."""
        if len(self.ends) >= BATCHES_AHEAD * self.seats:
            heapq.heappop(self.ends)
        end = self.free_at[0] + seconds
        heapq.heapreplace(self.free_at, end)
        heapq.heappush(self.ends, end)
