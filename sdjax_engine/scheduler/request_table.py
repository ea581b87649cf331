"""Every request of the loop that is not answered, each in one place that its state names.

    WAITING             in the line of its lane
    SEATED              in a seat of its lane
    IN_FLIGHT, DECODED  among the pictures of one flight

No method waits for the devices or calls anybody back, and each changes everything that belongs to a move or
nothing. Between two methods the table can therefore be read by the thread that takes over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from sdjax_engine.request import Lane, Request
from sdjax_engine.scheduler.in_flight import Flight
from sdjax_engine.scheduler.lane_queue import Desk, Picture
from sdjax_engine.scheduler.pending import State, Ticket
from sdjax_engine.scheduler.seats import Placement, RunLimits


class RequestTable:
    """The requests, by the desks and flights that they are in; changed by one thread only.

    `interrupted` requests were with devices that another thread was abandoned at; they are in no other place.
    """

    def __init__(self, desks: Mapping[Lane, Desk]) -> None:
        self.desks = dict(desks)
        self.flights: deque[Flight] = deque()
        self.preparing: Flight | None = None
        self.interrupted: dict[Ticket, None] = {}
        self._by_request: dict[Request, dict[Ticket, None]] = {}
        self._present: dict[Ticket, None] = {}

    def __len__(self) -> int:
        return len(self._present)

    def __iter__(self) -> Iterator[Ticket]:
        return iter(self._present)

    def join(self, ticket: Ticket, now: float) -> None:
        """Put a request at the end of its lane's line."""
        self._remember(ticket)
        desk = self.desks[ticket.prepared.request.lane]
        desk.seats.join(ticket, ticket.prepared.evaluations, now=now)

    def remove(self, ticket: Ticket) -> None:
        """Take a request out of wherever it is; nothing for one that is not here."""
        if ticket not in self._present:
            return
        request = ticket.prepared.request
        del self._present[ticket]
        same = self._by_request[request]
        del same[ticket]
        if not same:
            del self._by_request[request]
        self.interrupted.pop(ticket, None)
        self.desks[request.lane].seats.leave(ticket)
        for flight in self.every_flight():
            flight.pictures.pop(ticket, None)

    def take_seats(self, desk: Desk, now: float) -> list[Placement[Ticket]]:
        """Give the free seats of a desk to whoever is first in its line."""
        placements = desk.seats.take_seats(now)
        for placement in placements:
            placement.ticket.seated_at = now
            placement.ticket.move(State.SEATED)
        return placements

    def plan_run(self, flight: Flight, limits: RunLimits) -> None:
        """Decide what a flight's run does; requests that it finishes go from their seats to the flight."""
        flight.spans = flight.desk.seats.plan_run(limits)
        for span in flight.spans:
            if span.last:
                flight.pictures[span.ticket] = None
                span.ticket.move(State.IN_FLIGHT)

    def launch(self, flight: Flight) -> None:
        """Put a flight that has been prepared behind those under way."""
        self.preparing = None
        self.flights.append(flight)

    def decode_alone(self, pictures: Mapping[Ticket, Picture], desk: Desk, now: float) -> None:
        """Give requests, of the line or of a flight, a flight of their own in which latents are decoded."""
        for ticket in pictures:
            desk.seats.leave(ticket)
            for flight in self.every_flight():
                flight.pictures.pop(ticket, None)
            ticket.move(State.IN_FLIGHT)
        self.flights.append(Flight(desk=desk, queued_at=now, pictures=dict(pictures)))

    def land(self, flight: Flight) -> None:
        """Note that the devices have done a flight's work."""
        for ticket in flight.pictures:
            ticket.move(State.DECODED)

    def retire(self, flight: Flight) -> None:
        """Forget a flight that everybody has left."""
        if flight in self.flights:
            self.flights.remove(flight)

    def begin_anew(self, desk: Desk, tickets: Sequence[Ticket], *, alone: bool, now: float) -> None:
        """Put requests at the front of their line; those to be painted `alone` share no run with others."""
        for ticket in tickets:
            self.interrupted.pop(ticket, None)
            for flight in self.every_flight():
                flight.pictures.pop(ticket, None)
            ticket.decoded_again = False
            ticket.move(State.WAITING)
        people = [(ticket, ticket.prepared.evaluations) for ticket in tickets]
        desk.seats.rejoin(people, alone=alone, now=now)

    def empty(self, desk: Desk, lost: Sequence[Flight]) -> list[Ticket]:
        """Interrupt whatever sits at a desk or is in one of its `lost` flights, and return it."""
        tickets = [ticket for flight in lost for ticket in flight.pictures]
        tickets += desk.clear_seats()
        self.interrupted |= dict.fromkeys(tickets)
        self.flights = deque(flight for flight in self.flights if flight not in lost)
        if self.preparing in lost:
            self.preparing = None
        return tickets

    def every_flight(self) -> Iterator[Flight]:
        """The flights under way and that being prepared."""
        yield from self.flights
        if self.preparing is not None:
            yield self.preparing

    def flights_of(self, desk: Desk) -> list[Flight]:
        """The flights of one desk."""
        return [flight for flight in self.every_flight() if flight.desk is desk]

    def anew(self) -> RequestTable:
        """Return another of the same requests: the lines as they are, seats and flights empty."""
        other = RequestTable({lane: desk.anew() for lane, desk in self.desks.items()})
        for ticket in self._present:
            other._remember(ticket)
            if ticket.state is not State.WAITING:
                other.interrupted[ticket] = None
        return other

    def _remember(self, ticket: Ticket) -> None:
        self._present[ticket] = None
        self._by_request.setdefault(ticket.prepared.request, {})[ticket] = None
