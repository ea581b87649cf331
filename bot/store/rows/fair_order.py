"""The fair order by numbers alone: the tags of images, and when the images of a lane start and end; no I/O.

Start-time fair queueing (Goyal, Vin and Cheng, 1996) with one number per image.

Every image has a tag, and the smallest tags are served first. A user's tags grow by cost / weight with each
image, so a user who asks for much is served at the same pace as others, for longer. Virtual time follows the
tags being served. A user who returns starts at virtual time, so idle time earns no credit. Tags are finish
tags, and virtual time is the tag of the image being served: the self-clocked form of Golestani (1994).

In a group session a person has separate tags, as if the person were another user there, of the weight
`SESSION_WEIGHT` whatever the person's roles. So all members of a session are served at one pace from the
moment when they join, and neither the session's work nor the server's delays the other by more than the
bounds of as many users.

Bounds: when a user's image of share s arrives while others wait, each other user u is served for at most s +
m_u first, in cost over weight, where m_u is the largest share of one of u's images. The k-th of equal images
waits for k times s + m_u. Of two users who always wait, neither is ahead of the other by more than the shares
of one image of each.

The pace of a lane, in seconds per step, is measured while other lanes share the devices. A step takes less
time when another lane runs out of work, and more when another lane gets work.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from math import fsum

from bot.domain.jobs import BATCHES_AHEAD

SESSION_WEIGHT = 1.0
"""The weight of every person in a group session."""
SLOWED = 2.0
"""The factor on the share of an image beyond the number that a user may have waiting at full share."""
PLAYED_ROUNDS = 4
"""Images per seat that are simulated one by one; the images after them are counted as whole rounds."""
MOST_OVERTAKEN = 0.2
"""The largest fraction of a lane that is assumed to go to later requests."""


def share(cost: float, weight: float) -> float:
    """Return what an image of this cost adds to its user's tags.

    Raises ValueError unless both are positive: the image would overtake all others for ever.
    """
    if not (cost > 0 and weight > 0):
        raise ValueError(f"cost {cost} and weight {weight} must be positive")
    return cost / weight


def shares(share: float, *, count: int, room: int | None) -> list[float]:
    """Return what each of `count` new images adds to its user's tags: more for images beyond `room`.

    No image is refused by this, and the user has the full share again once fewer images wait.
    """
    full = count if room is None else max(0, min(count, room))
    return [share] * full + [share * SLOWED] * (count - full)


def tag_images(*, virtual_time: float, last_tag: float, shares: Iterable[float]) -> list[float]:
    """Return the tags of a user's new images, in order; the last is the user's new last tag."""
    return list(accumulate(shares, initial=max(virtual_time, last_tag)))[1:]


def advance(virtual_time: float, claimed: Iterable[float], waiting: Iterable[float]) -> float:
    """Return virtual time after the images with the tags `claimed` are served; it never goes back.

    It does not pass a tag that is still `waiting`. A lane with room may serve later tags first, and new
    images would then be tagged behind work that has not begun.
    """
    return max(virtual_time, min((max(claimed, default=virtual_time), *waiting)))


def refund(shares: Iterable[float]) -> float:
    """Return the amount to subtract from a user's last tag for images that never ran."""
    return fsum(shares)


@dataclass(frozen=True, kw_only=True)
class Ahead:
    """The waiting images before an image of a lane: how many, and their steps together.

    `lead` is the image's tag minus virtual time, `user_id` its user.
    """

    images: int
    steps: int
    lead: float = 0.0
    user_id: int = 0


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """A recent image: its user, its steps, and its tag minus virtual time when it was enqueued."""

    user_id: int
    steps: int
    lead: float


@dataclass(frozen=True, kw_only=True)
class WorkerSeats:
    """The `seats` of one worker in a lane, and the steps left of each claimed image, running images first."""

    seats: int
    running: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Line:
    """The state of a lane.

    `pace` is the seconds of one step of one image, None before the first measurement; `beside_steps`
    are the other seconds of an image, in which the other seats go on. `arrivals` are the images enqueued in
    the last `seconds`.
    """

    seats_by_worker: tuple[WorkerSeats, ...]
    pace: float | None
    beside_steps: float = 0.0
    arrivals: tuple[Arrival, ...] = ()
    seconds: float = 60.0


def overtaking(line: Line, ahead: Ahead) -> float:
    """Return the steps a second of later images that will overtake, estimated from recent arrivals.

    Later images with a smaller lead overtake: their users have used less lately. Virtual time moves towards
    the tag of the waiting image, whose lead shrinks to zero, so each such arrival counts only in part.
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
    """Return the seconds until the image behind `ahead` takes a seat; None without seats or measurements.

    Lanes share the devices, but each has seats of its own, and its pace is measured while the other lanes
    work. So each lane is simulated alone: a worker with room claims the next image, and seats it after the
    images that it claimed before. Only the sum of the waiting steps is known, so each image counts as a mean
    one. Images that will overtake are estimated from recent arrivals.
    """
    pace = line.pace
    workers = [
        _Worker.of(worker_seats, pace)
        for worker_seats in line.seats_by_worker
        if worker_seats.seats > 0 and pace is not None
    ]
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
    # Any of the workers with room may claim first, with or without a free seat.
    return sum(starts) / len(starts) + rounds * each


def steps_ahead(line: Line, ahead: Ahead) -> float:
    """Return the steps of all images that run, or that wait before the image."""
    return ahead.steps + sum(steps for worker_seats in line.seats_by_worker for steps in worker_seats.running)


def spans(worker_seats: WorkerSeats, pace: float) -> list[tuple[float, float]]:
    """Return the seconds until each claimed image starts and ends, in the order of `running`."""
    worker = _Worker.of(WorkerSeats(seats=worker_seats.seats), pace)
    found = []
    for steps in worker_seats.running:
        start, seconds = worker.free_at[0], pace * max(0, steps)
        worker.take(seconds)
        found.append((start, start + seconds))
    return found


@dataclass(kw_only=True)
class _Worker:
    """The times when each seat of a worker is free and when each claimed image ends; both are heaps."""

    seats: int
    free_at: list[float]
    ends: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, worker_seats: WorkerSeats, pace: float) -> _Worker:
        worker = cls(seats=worker_seats.seats, free_at=[0.0] * worker_seats.seats)
        for steps in worker_seats.running:
            worker.take(pace * max(0, steps))
        return worker

    def room_at(self) -> tuple[float, float]:
        """Return when it can claim one more image, and when it can seat that image."""
        full = len(self.ends) >= BATCHES_AHEAD * self.seats
        return (self.ends[0] if full else 0.0, self.free_at[0])

    def take(self, seconds: float) -> None:
        """Claim one more image, of so many seconds."""
        if len(self.ends) >= BATCHES_AHEAD * self.seats:
            heapq.heappop(self.ends)
        end = self.free_at[0] + seconds
        heapq.heapreplace(self.free_at, end)
        heapq.heappush(self.ends, end)


@dataclass(frozen=True, kw_only=True)
class Flow:
    """One lane: its seats, the taken seats, and its present seconds per step.

    `left` are the steps of all waiting and running images, `inflow` the steps that arrive in a second.
    """

    seats: int
    taken: int
    pace: float
    left: float
    inflow: float


def faster(lane: str, steps: float, flows: Mapping[str, Flow]) -> float:
    """Return the ratio of the expected seconds of so many steps of a lane to those at its present pace.

    Lanes share the devices' time in proportion to their wanted seats. Another lane may finish its work
    meanwhile; after that it takes only the time that its inflow needs.
    """
    mine = flows[lane]
    busy = {name: flow for name, flow in flows.items() if flow.taken or name == lane}
    taken = sum(max(1, flow.taken) for flow in busy.values())
    # Seconds of all devices for one step of one image.
    costs = {name: flow.pace * max(1, flow.taken) / taken / flow.seats for name, flow in busy.items()}
    left = {name: flow.left * costs[name] for name, flow in busy.items() if name != lane}
    coming = {name: flow.inflow * costs[name] for name, flow in busy.items() if name != lane}
    work, now = steps * costs[lane], max(1, mine.taken) / taken
    if not left or work <= 0:
        return 1.0
    took = 0.0
    while True:
        wanted = mine.seats + sum(flows[name].seats for name in left)
        free = max(0.1, 1 - sum(coming[name] for name in coming if name not in left))
        rate = free * mine.seats / wanted
        drains = {
            name: left[name] / (free * flows[name].seats / wanted - coming[name])
            for name in left
            if free * flows[name].seats / wanted > coming[name]
        }
        ends = min(drains.values(), default=work / rate)
        if work / rate <= ends:
            return (took + work / rate) * now / (steps * costs[lane])
        took, work = took + ends, work - ends * rate
        left = {
            name: left[name] - ends * (free * flows[name].seats / wanted - coming[name])
            for name in left
            if drains.get(name) != ends
        }
