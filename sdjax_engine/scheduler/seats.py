"""Which request has which seat of a lane's batch, and how long the next run is; pure policy.

    line ──take_seats──► seats ──plan_run──► seats ──► finished, seat free again
      └──────── leave ───────┘

Requests wait in the order of their arrival. A seat counts its own evaluations, so a request takes a free
seat at the end of any run while the other seats go on. An empty seat may be computed with the batch; its
result is dropped. Nothing here knows devices, pictures or threads: a request is any hashable object of the
caller. Only `waiting` and `requests` take longer when more requests wait.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

AnyRequest = TypeVar("AnyRequest", bound=Hashable)

# Seats of a device unless the configuration says how many. On a slice of the CPU one picture fills the
# core: a second seat saves nothing and doubles the time of a single picture. An accelerator needs a few.
SEATS_ON_CPU = 1
SEATS_ON_ACCELERATOR = 4


def suitable_seats(*, on_cpu: bool) -> int:
    """Return how many seats a device has unless the configuration says."""
    return SEATS_ON_CPU if on_cpu else SEATS_ON_ACCELERATOR


@dataclass(frozen=True, kw_only=True)
class RunLimits:
    """How many evaluations a run has at most: `short` with a free seat for a newcomer, `long` without one.

    A full batch runs until its next seat finishes, but not for so long that progress is silent or a seat
    of a cancelled request is held.
    """

    short: int = 4
    long: int = 16


@dataclass(frozen=True, kw_only=True)
class Readiness:
    """A lane that could run now: how many seats its requests could take, and whether one more could join.

    With `open_to_newcomers`, a request that came now would take a seat before the next run.
    """

    seats: int
    open_to_newcomers: bool


@dataclass(frozen=True, kw_only=True)
class Placement(Generic[AnyRequest]):
    """A request that has just taken `seat`."""

    seat: int
    request: AnyRequest


@dataclass(frozen=True, kw_only=True)
class Span(Generic[AnyRequest]):
    """What one seat does in a run: the evaluations from `start` up to, not including, `stop`."""

    seat: int
    request: AnyRequest
    start: int
    stop: int
    last: bool


@dataclass(kw_only=True)
class Waiting(Generic[AnyRequest]):
    """A request in the line; with `alone` it shares no run with other requests."""

    request: AnyRequest
    evaluations: int
    alone: bool = False


@dataclass(kw_only=True)
class Seated(Generic[AnyRequest]):
    """A request in a seat."""

    request: AnyRequest
    evaluations: int
    done: int = 0
    alone: bool = False

    @property
    def left(self) -> int:
        """How many evaluations are still to be made."""
        return self.evaluations - self.done


class Seats(Generic[AnyRequest]):
    """The line and the seats of one lane.

    Seat `i` is on device `i // seats_per_device`.
    """

    def __init__(self, *, devices: int, seats_per_device: int) -> None:
        self._devices = devices
        self.line: OrderedDict[AnyRequest, Waiting[AnyRequest]] = OrderedDict()
        self.resize(seats_per_device)

    def __len__(self) -> int:
        """How many seats there are, taken or not."""
        return len(self._seats)

    @property
    def requests(self) -> list[AnyRequest]:
        """Every request here, the seated before the waiting."""
        return self.seated + self.waiting

    @property
    def seated(self) -> list[AnyRequest]:
        """Every request in a seat, in the order of the seats."""
        return [taken.request for _, taken in self._taken()]

    @property
    def waiting(self) -> list[AnyRequest]:
        """Every request in the line, the oldest first."""
        return list(self.line)

    @property
    def present(self) -> int:
        """How many requests wait or have a seat."""
        return len(self.line) + sum(1 for _ in self._taken())

    @property
    def open_to_newcomers(self) -> bool:
        """Whether a request that came now would take a seat before the next run."""
        if self.present >= len(self):
            return False
        if any(taken.alone for _, taken in self._taken()):
            return False
        return not any(waiting.alone for waiting in self.line.values())

    def resize(self, seats_per_device: int) -> None:
        """Give every device so many empty seats; the line stays."""
        self._seats_per_device = seats_per_device
        self._seats: list[Seated[AnyRequest] | None] = [None] * (self._devices * seats_per_device)

    def join(self, request: AnyRequest, evaluations: int) -> None:
        """Put a request at the end of the line; its picture takes `evaluations` of the network."""
        self.line[request] = Waiting(request=request, evaluations=evaluations)

    def rejoin(self, requests: Iterable[tuple[AnyRequest, int]], *, alone: bool) -> None:
        """Put requests, each with its evaluations, back at the front of the line, in this order."""
        for request, evaluations in reversed(list(requests)):
            self.line[request] = Waiting(request=request, evaluations=evaluations, alone=alone)
            self.line.move_to_end(request, last=False)

    def leave(self, request: AnyRequest) -> bool:
        """Take a request out of the line or its seat; False for a request that is in neither."""
        if self.line.pop(request, None) is not None:
            return True
        found = (number for number, taken in self._taken() if taken.request == request)
        seat = next(found, None)
        if seat is not None:
            self._seats[seat] = None
        return seat is not None

    def readiness(self) -> Readiness | None:
        """Return what a run would have now; None where no request has a seat or could take one."""
        if not self.present:
            return None
        return Readiness(seats=min(self.present, len(self)), open_to_newcomers=self.open_to_newcomers)

    def take_seats(self) -> list[Placement[AnyRequest]]:
        """Seat as many waiting requests as there is room for, on the emptiest devices first."""
        placements = []
        while (first := self._first_in_line()) is not None and self._may_be_seated(first):
            seat = self._best_seat()
            if seat is None:
                break
            del self.line[first.request]
            self._seats[seat] = Seated(
                request=first.request, evaluations=first.evaluations, alone=first.alone
            )
            placements.append(Placement(seat=seat, request=first.request))
        return placements

    def plan_run(self, limits: RunLimits | None = None) -> list[Span[AnyRequest]]:
        """Decide the next run and count it as done: finished seats are free again. Empty: no request."""
        length = self._run_length(limits or RunLimits())
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

    def clear_seats(self) -> list[AnyRequest]:
        """Empty every seat and return the requests that had one; those that wait stay."""
        seated = self.seated
        self.resize(self._seats_per_device)
        return seated

    def _first_in_line(self) -> Waiting[AnyRequest] | None:
        return next(iter(self.line.values()), None)

    def _taken(self) -> Iterator[tuple[int, Seated[AnyRequest]]]:
        for seat, seated in enumerate(self._seats):
            if seated is not None:
                yield seat, seated

    def _taken_by_device(self) -> list[int]:
        counts = [0] * self._devices
        for seat, _ in self._taken():
            counts[seat // self._seats_per_device] += 1
        return counts

    def _may_be_seated(self, newcomer: Waiting[AnyRequest]) -> bool:
        seated = [taken for _, taken in self._taken()]
        return not seated or not (newcomer.alone or any(taken.alone for taken in seated))

    def _best_seat(self) -> int | None:
        """Return the free seat of the emptiest device."""
        counts = self._taken_by_device()
        free = (seat for seat, seated in enumerate(self._seats) if seated is None)
        return min(free, key=lambda seat: (counts[seat // self._seats_per_device], seat), default=None)

    def _run_length(self, limits: RunLimits) -> int:
        left = [taken.left for _, taken in self._taken()]
        return min([*left, limits.long if len(left) == len(self._seats) else limits.short])
