"""Who sits where in a lane's batch, who joins when, and how long the next run is; pure policy.

    line ──take_seats──► seats ──plan_run──► seats ──► finished, seat free again
      └──────── leave ───────┘

Requests wait in the order of their arrival. A seat counts its own evaluations, so a request takes a free
seat at the end of any run while the other seats go on. An empty seat is computed with the batch and its
result is dropped. Nothing here knows devices, pictures or threads: a request is any hashable object of the
caller. No call but `waiting` and `tickets` takes longer when more requests wait.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

Request = TypeVar("Request", bound=Hashable)

# Seats of a device where nobody says how many. On a slice of the CPU one picture fills the core: a second
# seat saves nothing and doubles the time of a picture alone. An accelerator is idle with less than a few.
SEATS_ON_CPU = 1
SEATS_ON_ACCELERATOR = 4


def suitable_seats(*, on_cpu: bool) -> int:
    """How many seats a device should have where nobody says."""
    return SEATS_ON_CPU if on_cpu else SEATS_ON_ACCELERATOR


@dataclass(frozen=True, kw_only=True)
class RunLimits:
    """How many evaluations a run has at most: `short` while a newcomer could join at its end, else `long`.

    A full batch runs until its next seat finishes, but not for so long that progress is silent or a seat
    that somebody has given up is held.
    """

    short: int = 4
    long: int = 16


@dataclass(frozen=True, kw_only=True)
class Placement(Generic[Request]):
    """A ticket that has just taken `seat`."""

    seat: int
    request: Request


@dataclass(frozen=True, kw_only=True)
class Span(Generic[Request]):
    """What one seat does in a run: the evaluations from `start` up to, not including, `stop`."""

    seat: int
    request: Request
    start: int
    stop: int
    last: bool


@dataclass(kw_only=True)
class Waiting(Generic[Request]):
    """Somebody in the line, who came at the time `since`; who is to sit `alone` shares no run with others."""

    request: Request
    evaluations: int
    since: float
    alone: bool = False


@dataclass(kw_only=True)
class Seated(Generic[Request]):
    """A request in a seat."""

    request: Request
    evaluations: int
    done: int = 0
    alone: bool = False

    @property
    def left(self) -> int:
        """How many evaluations are still to be made."""
        return self.evaluations - self.done


class Seats(Generic[Request]):
    """The line and the seats of one lane.

    Seat `i` is on device `i // seats_per_device`.
    """

    def __init__(self, *, devices: int, seats_per_device: int) -> None:
        self._devices = devices
        self.line: OrderedDict[Request, Waiting[Request]] = OrderedDict()
        self.resize(seats_per_device)

    def __len__(self) -> int:
        """How many seats there are, taken or not."""
        return len(self._seats)

    @property
    def requests(self) -> list[Request]:
        """Every request here, the seated before the waiting."""
        return self.seated + self.waiting

    @property
    def seated(self) -> list[Request]:
        """Every request in a seat, in the order of the seats."""
        return [person.request for _, person in self._people()]

    @property
    def waiting(self) -> list[Request]:
        """Everybody in the line."""
        return list(self.line)

    @property
    def present(self) -> int:
        """How many requests wait or have a seat."""
        return len(self.line) + sum(1 for _ in self._people())

    @property
    def wanted(self) -> int:
        """How many seats the requests here could take, at least 1."""
        return max(1, min(self.present, len(self)))

    @property
    def open_to_newcomers(self) -> bool:
        """Whether somebody who came now would sit down before the next run."""
        if self.present >= len(self):
            return False
        if any(person.alone for _, person in self._people()):
            return False
        return not any(waiting.alone for waiting in self.line.values())

    def resize(self, seats_per_device: int) -> None:
        """Give every device so many seats, all empty; the line stays."""
        self._seats_per_device = seats_per_device
        self._seats: list[Seated[Request] | None] = [None] * (self._devices * seats_per_device)

    def restarted(self, seats_per_device: int) -> Self:
        """Return the same line before so many empty seats on each device."""
        other = copy.copy(self)
        other.line = self.line.copy()
        other.resize(seats_per_device)
        return other

    def join(self, request: Request, evaluations: int, *, now: float = 0.0) -> None:
        """Stand at the line's end; the picture takes `evaluations` of the network."""
        self.line[request] = Waiting(request=request, evaluations=evaluations, since=now)

    def rejoin(self, people: Iterable[tuple[Request, int]], *, alone: bool, now: float = 0.0) -> None:
        """Stand at the line's front, in this order, to begin anew: each with its evaluations."""
        first = self._first_in_line()
        since = now if first is None else min(now, first.since)  # the front has always waited longest
        for request, evaluations in reversed(list(people)):
            self.line[request] = Waiting(request=request, evaluations=evaluations, since=since, alone=alone)
            self.line.move_to_end(request, last=False)

    def leave(self, request: Request) -> bool:
        """Leave the line or the seat; False for somebody who has neither."""
        if self.line.pop(request, None) is not None:
            return True
        taken = (number for number, person in self._people() if person.request == request)
        seat = next(taken, None)
        if seat is not None:
            self._seats[seat] = None
        return seat is not None

    def ready(self, now: float) -> bool:
        """Whether a run could be made now: somebody sits, or would."""
        del now  # waiting is nobody's duty here
        return bool(self.present)

    def wake_at(self) -> float | None:
        """When somebody who only waits will be ready without anybody coming; None: no such time."""
        return None

    def take_seats(self, now: float = 0.0) -> list[Placement[Request]]:
        """Seat as many waiting requests as there is room for, on the emptiest devices first."""
        del now
        placements = []
        while (person := self._first_in_line()) is not None and self._may_sit(person):
            seat = self._best_seat()
            if seat is None:
                break
            del self.line[person.request]
            self._seats[seat] = Seated(
                request=person.request, evaluations=person.evaluations, alone=person.alone
            )
            placements.append(Placement(seat=seat, request=person.request))
        return placements

    def plan_run(self, limits: RunLimits | None = None) -> list[Span[Request]]:
        """Decide the next run and count it as done: finished seats are free again. Empty: nobody sits."""
        length = self._run_length(limits or RunLimits())
        if not length:
            return []
        spans = []
        for seat, seated in enumerate(self._seats):
            if seated is None:
                continue
            start, seated.done = seated.done, min(seated.done + length, seated.evaluations)
            spans.append(
                Span(
                    seat=seat,
                    request=seated.request,
                    start=start,
                    stop=seated.done,
                    last=not seated.left,
                )
            )
            if not seated.left:
                self._seats[seat] = None
        return spans

    def clear_seats(self) -> list[Request]:
        """Empty every seat and return the requests that had one; those that wait stay."""
        seated = self.seated
        self.resize(self._seats_per_device)
        return seated

    def _first_in_line(self) -> Waiting[Request] | None:
        return next(iter(self.line.values()), None)

    def _people(self) -> Iterator[tuple[int, Seated[Request]]]:
        for seat, seated in enumerate(self._seats):
            if seated is not None:
                yield seat, seated

    def _people_by_device(self) -> list[int]:
        counts = [0] * self._devices
        for seat, _ in self._people():
            counts[seat // self._seats_per_device] += 1
        return counts

    def _may_sit(self, newcomer: Waiting[Request]) -> bool:
        people = [person for _, person in self._people()]
        return not people or not (newcomer.alone or any(person.alone for person in people))

    def _best_seat(self) -> int | None:
        """Return the free seat of the emptiest device."""
        counts = self._people_by_device()
        free = (seat for seat, seated in enumerate(self._seats) if seated is None)
        return min(free, key=lambda seat: (counts[seat // self._seats_per_device], seat), default=None)

    def _run_length(self, limits: RunLimits) -> int:
        left = [person.left for _, person in self._people()]
        if not left:
            return 0
        return min(*left, limits.long if len(left) == len(self._seats) else limits.short)
