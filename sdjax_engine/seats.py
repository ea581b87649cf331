"""Who sits where in a lane's batch, who joins when, and how long the next run is; pure policy.

    line ──take_seats──► seats ──plan_run──► seats ──► finished, seat free again
      └───────────────── drop ─────────────────┘

People wait in line in the order they came. A seat counts its own evaluations, so a newcomer takes a
free seat at any run's end while the others go on. Nothing here knows of devices, pictures or threads:
what sits is any object of the caller's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

Ticket = TypeVar("Ticket")

# A run's length, in evaluations: short while a newcomer could join at its end; otherwise until the next
# seat finishes, but not so long that progress is silent or a cancelled seat is held for ever.
SHORT_RUN = 4
LONG_RUN = 16

# Seats of a device where nobody says how many. On a slice of the CPU one picture fills the core: a second
# seat saves nothing and doubles the time of a picture alone. An accelerator is idle with less than a few.
SEATS_ON_CPU = 1
SEATS_ON_ACCELERATOR = 4


def suitable_seats(*, on_cpu: bool) -> int:
    """How many seats a device should have where nobody says."""
    return SEATS_ON_CPU if on_cpu else SEATS_ON_ACCELERATOR


@dataclass(frozen=True, kw_only=True)
class Placement(Generic[Ticket]):
    """A ticket that has just taken `seat`; `padding` is how many seeds after its own this seat paints."""

    seat: int
    ticket: Ticket
    padding: int = 0


@dataclass(frozen=True, kw_only=True)
class Span(Generic[Ticket]):
    """What one seat does in a run: the evaluations from `start` up to, not including, `stop`.

    `ticket` is None where the seat is mere padding.
    """

    seat: int
    ticket: Ticket | None
    start: int
    stop: int
    last: bool


@dataclass(kw_only=True)
class _Seated(Generic[Ticket]):
    ticket: Ticket
    evaluations: int
    done: int = 0
    padding: int = 0


class Seats(Generic[Ticket]):
    """The line and the seats of one lane.

    Seat `i` is on device `i // seats_per_device`. With `pad_idle_devices` every free seat is padded;
    without, only those of devices that have work anyway (slices of one CPU: an idle one lends its
    cores to the others, so padding it would cost the seated people time).
    """

    def __init__(self, *, devices: int, seats_per_device: int, pad_idle_devices: bool) -> None:
        self._seats_per_device = seats_per_device
        self._pad_idle_devices = pad_idle_devices
        self._seats: list[_Seated[Ticket] | None] = [None] * (devices * seats_per_device)
        self._line: deque[tuple[Ticket, int]] = deque()

    def __len__(self) -> int:
        """How many seats there are, taken or not."""
        return len(self._seats)

    @property
    def tickets(self) -> list[Ticket]:
        """Everybody present, the seated before the waiting."""
        return [seated.ticket for _, seated in self._people()] + [ticket for ticket, _ in self._line]

    def join(self, ticket: Ticket, evaluations: int) -> None:
        """Stand at the line's end; the picture takes `evaluations` of the network."""
        self._line.append((ticket, evaluations))

    def take_seats(self) -> list[Placement[Ticket]]:
        """Seat as many from the line as there is room for, on the emptiest devices first.

        Padding gives way to people, and is renewed only when somebody sits down.
        """
        placements = []
        while self._line and (seat := self._best_free_seat()) is not None:
            ticket, evaluations = self._line.popleft()
            self._seats[seat] = _Seated(ticket=ticket, evaluations=evaluations)
            placements.append(Placement(seat=seat, ticket=ticket))
        return placements + (self._pad() if placements else [])

    def plan_run(self) -> list[Span[Ticket]]:
        """Decide the next run and count it as done: finished seats are free again. Empty: nobody sits."""
        length = self._run_length()
        if not length:
            return []
        spans = []
        for seat, seated in enumerate(self._seats):
            if seated is None:
                continue
            start, seated.done = seated.done, min(seated.done + length, seated.evaluations)
            last = seated.done == seated.evaluations
            ticket = None if seated.padding else seated.ticket
            spans.append(Span(seat=seat, ticket=ticket, start=start, stop=seated.done, last=last))
            if last:
                self._seats[seat] = None
        return spans

    def drop(self, unwanted: Callable[[Ticket], bool]) -> list[Ticket]:
        """Send away everybody who is unwanted, waiting or seated, and return them.

        Each is asked about once: whoever becomes unwanted meanwhile is sent away the next time.
        """
        dropped = [ticket for ticket in self.tickets if unwanted(ticket)]
        gone = {id(ticket) for ticket in dropped}
        self._line = deque(entry for entry in self._line if id(entry[0]) not in gone)
        for seat, seated in enumerate(self._seats):
            if seated is not None and id(seated.ticket) in gone:
                self._seats[seat] = None
        return dropped

    def clear_seats(self) -> list[Ticket]:
        """Empty every seat and return who sat; the line stays."""
        seated = [person.ticket for _, person in self._people()]
        self._seats = [None] * len(self._seats)
        return seated

    def _people(self) -> Iterator[tuple[int, _Seated[Ticket]]]:
        for seat, seated in enumerate(self._seats):
            if seated is not None and not seated.padding:
                yield seat, seated

    def _people_by_device(self) -> list[int]:
        counts = [0] * (len(self._seats) // self._seats_per_device)
        for seat, _ in self._people():
            counts[seat // self._seats_per_device] += 1
        return counts

    def _best_free_seat(self) -> int | None:
        taken = {seat for seat, _ in self._people()}
        counts = self._people_by_device()
        free = (seat for seat in range(len(self._seats)) if seat not in taken)
        return min(free, key=lambda seat: (counts[seat // self._seats_per_device], seat), default=None)

    def _pad(self) -> list[Placement[Ticket]]:
        """Fill empty seats with what the seated asked for, each duplicate one seed further."""
        people = [seated for _, seated in self._people()]
        counts = self._people_by_device()
        placements: list[Placement[Ticket]] = []
        for seat, seated in enumerate(self._seats):
            if seated is not None or not (self._pad_idle_devices or counts[seat // self._seats_per_device]):
                continue
            repeat, index = divmod(len(placements), len(people))
            like = people[index]
            self._seats[seat] = _Seated(ticket=like.ticket, evaluations=like.evaluations, padding=repeat + 1)
            placements.append(Placement(seat=seat, ticket=like.ticket, padding=repeat + 1))
        return placements

    def _run_length(self) -> int:
        left = [seated.evaluations - seated.done for _, seated in self._people()]
        if not left:
            return 0
        full = len(left) == len(self._seats)
        return min(*left, LONG_RUN if full else SHORT_RUN)
