"""The engine's loop: seats people, keeps the devices busy, and answers everybody; it has no thread itself.

One turn serves one lane:

    send away who has cancelled ─► seat newcomers, pad ─► queue a run ─► queue the decoding of the finished
    ─► only then wait for the run before this one, tell its progress, answer for its pictures

The devices thus always have the next run before them while the host waits.

An error of the devices may show when a run is queued, when it has been waited for, or when a picture is
read. Whoever the error can have touched begins anew, once and alone, so that an image that breaks the
devices breaks no other; whoever it touches again is answered with it. Nobody else notices.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from sdjax_engine import heap
from sdjax_engine.ahead import AT_ONCE, RUNS_AHEAD, next_run_at, runs_ahead
from sdjax_engine.desks import Desk, Picture
from sdjax_engine.devices import is_out_of_memory
from sdjax_engine.flights import Flight
from sdjax_engine.lanes import why_no_picture
from sdjax_engine.request import Image, Lane, PaintingFailed, Trouble
from sdjax_engine.spares import Latents, Spares, followers
from sdjax_engine.tickets import Ticket
from sdjax_engine.turns import Turns
from sdjax_engine.watch import Watch
from sdjax_engine.wording import first_line

logger = logging.getLogger(__name__)

MOST_ATTEMPTS = 2
STUCK = "The devices hung twice while this picture was painted."
COMPILING = 60.0  # seconds that the programs of a lane take to compile, or so


class Painting:
    """The people in the engine and what is done with them; used by one thread at a time."""

    def __init__(
        self,
        desks: Mapping[Lane, Desk],
        *,
        clock: Callable[[], float],
        watch: Watch,
        spares: Spares | None = None,
    ) -> None:
        self.desks = dict(desks)
        self._clock = clock
        self._spares = Spares(0) if spares is None else spares
        self._watch = watch
        self._turns: Turns[Lane] = Turns()
        self._newcomers: list[Ticket] = []
        self._flights: deque[Flight] = deque()
        self._preparing: Flight | None = None
        self._landed_at = clock()
        self.landed = 0

    @property
    def tickets(self) -> Iterator[Ticket]:
        """Everybody who waits for an answer."""
        for desk in self.desks.values():
            yield from desk.seats.tickets
        for flight in self._every_flight():
            yield from flight.finished

    @property
    def busy(self) -> bool:
        """Whether a turn would do anything now."""
        if self._next_run_at > self._clock():
            return False
        return bool(self._flights) or any(True for _ in self._ready_desks())

    @property
    def occupied(self) -> bool:
        """Whether anybody waits for an answer, though there may be nothing to do for them yet."""
        return any(True for _ in self.tickets)

    @property
    def wake_at(self) -> float | None:
        """When there will be something to do without anybody coming; None: no such time."""
        if (at := self._next_run_at) > AT_ONCE:
            return at
        times = (desk.seats.wake_at() for desk in self.desks.values())
        return min((time for time in times if time is not None), default=None)

    @property
    def _next_run_at(self) -> float:
        """When the next run should be queued, and not before."""
        at = next_run_at(self._flights, self._landed_at)
        alone = at > AT_ONCE and [desk.lane for desk in self._ready_desks()] == [self._flights[0].desk.lane]
        return at if alone else AT_ONCE

    def join(self, ticket: Ticket) -> None:
        """Put somebody in their lane's line."""
        desk = self.desks[ticket.prepared.request.lane]
        desk.seats.join(ticket, ticket.prepared.evaluations, now=self._clock())
        self._newcomers.append(ticket)

    def turn(self) -> None:
        """Do the next thing for everybody."""
        self._send_away_cancelled()
        newcomers, self._newcomers = self._newcomers, []
        self._serve_spares(newcomers)
        while len(self._flights) > RUNS_AHEAD and self._flights[0].ready:
            self._land(self._flights[0])  # nobody waits for an answer that is there
        if self._next_run_at > self._clock():
            return
        desk = self._next_desk()
        if desk is not None:
            self._launch(desk)
        while len(self._flights) > runs_ahead(desk):
            self._land(self._flights[0])

    def land_everything(self) -> None:
        """Wait for all that the devices have been given, whoever it was for."""
        while self._flights:
            self._land(self._flights[0])

    def anew(self, watch: Watch) -> Painting:
        """Return another of the same people and desks, whose seats are empty: this one is stuck.

        Nothing of this one is changed, and whatever it still does changes nothing of the other. Whom the
        devices were at work for begin anew, together; those for whom it is the second time are told.
        """
        desks = {lane: desk.anew() for lane, desk in self.desks.items()}
        other = Painting(desks, clock=self._clock, watch=watch, spares=self._spares)
        for lane, desk in self.desks.items():
            flights = [flight for flight in self._every_flight() if flight.desk is desk]
            finished = [ticket for flight in flights for ticket in flight.finished]
            again = []
            for ticket in (*finished, *desk.seats.seated):
                if ticket.attempts + 1 >= MOST_ATTEMPTS:
                    ticket.fail(PaintingFailed(STUCK))
                elif not ticket.answered:
                    ticket.attempts += 1
                    again.append(ticket)
            other._stand_in_front(other.desks[lane], again, Trouble.STUCK)
        return other

    def _send_away_cancelled(self) -> None:
        for desk in self.desks.values():
            for ticket in desk.seats.drop(lambda ticket: ticket.given_up):
                ticket.dismiss()

    def _ready_desks(self) -> Iterator[Desk]:
        now = self._clock()
        return (desk for desk in self.desks.values() if desk.seats.ready(now))

    def _next_desk(self) -> Desk | None:
        lane = self._turns.choose({desk.lane: desk.demand for desk in self._ready_desks()})
        return None if lane is None else self.desks[lane]

    def _launch(self, desk: Desk) -> None:
        """Give the devices a desk's next run; if that fails, what they have been given before may not."""
        behind = self._flights[-1] if self._flights else None
        flight = Flight(desk=desk, queued_at=self._clock(), wanted=desk.demand.seats)
        if behind is not None and desk.on_several_devices:
            flight.uneven = behind.uneven or bool(behind.pictures)
        self._preparing = flight
        try:
            with self._watch.blocked(desk.estimate(desk.limits().long)):
                self._prepare_run(flight)
        except Exception as error:
            logger.exception("a run of %s could not be started", desk.lane)
            for earlier in self._flights_of(desk):
                if earlier in self._flights:  # one that breaks takes the others with it
                    self._land(earlier)
            self._preparing = None
            self._begin_anew(desk, [flight], error)
        else:
            flight.charged = desk.estimate(flight.evaluations)
            self._turns.charge(desk.lane, flight.charged, flight.wanted)
            self._preparing = None
            self._flights.append(flight)

    def _prepare_run(self, flight: Flight) -> None:
        """Seat newcomers, and queue the run and the decoding of the pictures that it finishes."""
        desk = flight.desk
        newcomers = desk.seats.take_seats(self._clock())
        for placement in newcomers:
            placement.ticket.seated_at = self._clock()
            placement.ticket.tell(0)  # before the devices have anything of it: it may break the process
        desk.device.bring()
        if desk.broken:
            desk.device.reset()
            desk.broken = False
        brought_at = self._clock()
        if self._spares.wanted:
            newcomers += desk.seats.pad(self._wishes(desk))
        if newcomers:
            desk.device.admit({placement.seat: placement.ticket.prepared for placement in newcomers})
        shared = sum(1 for _ in self._ready_desks()) > 1
        flight.spans = desk.seats.plan_run(desk.limits(shared=shared))
        flight.run = desk.device.denoise({span.seat: (span.start, span.stop) for span in flight.spans})
        last = {span.seat: span.ticket for span in flight.people if span.last}
        decoded = desk.device.decode(list(last)) if last else {}
        flight.pictures = {last[seat]: picture for seat, picture in decoded.items()}
        ahead = {span.seat: span.ticket for span in flight.spans if span.last and span.padding}
        taken = desk.device.take(list(ahead)) if ahead else {}
        flight.spares = {ahead[seat]: latents for seat, latents in taken.items()}
        desk.learn_queueing(self._clock() - brought_at)

    def _wishes(self, desk: Desk) -> Iterator[tuple[Ticket, int]]:
        """What empty seats may paint ahead of anybody's asking."""
        people = [ticket.prepared for ticket in desk.seats.seated]
        present = (*self.tickets, *desk.seats.padding)
        taken = {ticket.prepared.request for ticket in present}
        taken |= {ticket.prepared.request for flight in self._flights for ticket in flight.spares}
        for prepared in followers(people, taken):
            if prepared.request not in self._spares:
                yield Ticket(prepared=prepared), prepared.evaluations

    def _serve_spares(self, waiting: Iterable[Ticket]) -> None:
        """Let those in a line have what has been painted ahead, or the seat where it is being painted."""
        ready: dict[Desk, list[tuple[Ticket, Latents]]] = {}
        for ticket in waiting:
            request = ticket.prepared.request
            desk = self.desks[request.lane]
            same = (spare for spare in desk.seats.padding if spare.prepared.request == request)
            if (latents := self._spares.find(request)) is not None:
                ready.setdefault(desk, []).append((ticket, latents))
            elif (spare := next(same, None)) is not None:
                ticket.seated_at = self._clock()
                desk.seats.adopt(spare, ticket)
        for desk, served in ready.items():
            self._decode_spares(desk, served)

    def _decode_spares(self, desk: Desk, ready: Sequence[tuple[Ticket, Latents]]) -> None:
        """Queue the decoding of spares; where that fails, those who want them stay in the line."""
        tickets = [ticket for ticket, _ in ready]
        try:
            with self._watch.blocked(desk.estimate(len(ready))):
                desk.device.bring()
                pictures = desk.device.decode_latents([latents for _, latents in ready])
        except Exception:
            logger.exception("spares of %s could not be decoded", desk.lane)
            return
        now = self._clock()
        for ticket in tickets:
            desk.seats.leave(ticket)
            ticket.seated_at = now
        answers = dict(zip(tickets, pictures, strict=True))
        self._flights.append(Flight(desk=desk, queued_at=now, pictures=answers))

    def _land(self, flight: Flight) -> None:
        """Wait for a run, tell its progress and answer for its pictures.

        Until then it stays among the flights, so that nobody in it can be forgotten.
        """
        desk = flight.desk
        try:
            with self._watch.blocked(desk.estimate(flight.evaluations)):
                flight.wait()
        except Exception as error:
            logger.exception("a run of %s broke", desk.lane)
            self._begin_anew(desk, self._flights_of(desk), error)
            return
        self._measure(flight)
        for span in flight.people:
            span.ticket.tell(span.stop)
        for ticket, picture in flight.pictures.items():
            self._deliver(flight, ticket, picture)
        self._flights.remove(flight)
        self._keep_spares(flight)
        if self.landed % heap.RUNS_BETWEEN == 0:
            heap.give_back()

    def _measure(self, flight: Flight) -> None:
        """Learn how long the devices took, and correct what the lane has been charged."""
        self.landed += 1
        landed = self._clock()
        seconds, self._landed_at = landed - max(flight.queued_at, self._landed_at), landed
        if flight.evaluations:
            flight.desk.learn_run(seconds, flight.evaluations)
            self._turns.charge(flight.desk.lane, seconds - flight.charged, flight.wanted)

    def _keep_spares(self, flight: Flight) -> None:
        desk = flight.desk
        try:
            for spare, latents in flight.spares.items():
                with self._watch.blocked(desk.estimate(1)):
                    self._spares.keep(spare.prepared.request, latents.fetch())
        except Exception:
            logger.exception("spares of %s could not be read", desk.lane)
        if flight.spares:
            self._serve_spares(desk.seats.waiting)

    def _deliver(self, flight: Flight, ticket: Ticket, picture: Picture) -> None:
        desk = flight.desk
        try:
            with self._watch.blocked(desk.estimate(1)):
                pixels, safety = picture.fetch(), picture.fetch_safety()
        except Exception as error:
            logger.exception("a picture of %s could not be read", desk.lane)
            self._try_again(desk, [ticket], error)
            return
        if pixels is None:
            self._decode_again(flight, ticket, picture)
            return
        seconds = self._clock() - ticket.seated_at
        if flight.run is not None:
            desk.learn_image(seconds)
        negative, prompt = ticket.prepared.facts
        image = Image(
            request=ticket.prepared.request,
            pixels=pixels,
            seconds=seconds,
            prompt=prompt,
            negative_prompt=negative,
            safety=safety,
        )
        ticket.give(image)

    def _decode_again(self, flight: Flight, ticket: Ticket, picture: Picture) -> None:
        """Try once more for a picture that is no number, with more precision where there is more."""
        desk = flight.desk
        try:
            with self._watch.blocked(desk.estimate(1)):
                latents = picture.fetch_latents()
                desk.device.bring()
                again = None if ticket.decoded_again else desk.device.decode_again(latents)
        except Exception as error:
            logger.exception("a picture of %s could not be decoded again", desk.lane)
            self._try_again(desk, [ticket], error)
            return
        if again is None:
            ticket.fail(PaintingFailed(why_no_picture(latents)))
            return
        ticket.decoded_again = True
        self._flights.append(Flight(desk=desk, queued_at=self._clock(), pictures={ticket: again}))

    def _every_flight(self) -> Iterator[Flight]:
        yield from self._flights
        if self._preparing is not None:
            yield self._preparing

    def _flights_of(self, desk: Desk) -> list[Flight]:
        return [flight for flight in self._flights if flight.desk is desk]

    def _begin_anew(self, desk: Desk, lost: Sequence[Flight], error: Exception) -> None:
        """Empty a desk's seats; who sat there, or waits for a `lost` flight, begins anew."""
        self._flights = deque(flight for flight in self._flights if flight not in lost)
        desk.broken = True
        finished = [ticket for flight in lost for ticket in flight.finished]
        touched = [*finished, *desk.seats.clear_seats()]
        if is_out_of_memory(error) and self._halve(desk):
            self._stand_in_front(desk, touched, Trouble.OUT_OF_MEMORY)
        else:
            self._try_again(desk, touched, error)

    def _halve(self, desk: Desk) -> bool:
        """Let a desk make do with less memory; its other runs can only have failed as well."""
        try:
            with self._watch.blocked(COMPILING):
                halved = desk.halve()
        except Exception:
            logger.exception("%s cannot make do with fewer seats", desk.lane)
            return False
        if halved:
            logger.warning("out of memory: %s goes on with %d seats", desk.lane, len(desk.seats))
        return halved

    def _try_again(self, desk: Desk, touched: Iterable[Ticket], error: Exception) -> None:
        """Let whom an error has touched be painted alone, before others; whom it touches again is told."""
        again = []
        for ticket in touched:
            if ticket.attempts + 1 >= MOST_ATTEMPTS:
                ticket.fail(PaintingFailed(f"The devices failed: {first_line(error)}"))
            else:
                ticket.attempts += 1
                again.append(ticket)
        self._stand_in_front(desk, again, Trouble.FAILED)

    def _stand_in_front(self, desk: Desk, tickets: Sequence[Ticket], trouble: Trouble) -> None:
        for ticket in tickets:
            ticket.tell_trouble(trouble)
        people = [(ticket, ticket.prepared.evaluations) for ticket in tickets]
        desk.seats.rejoin(people, alone=trouble is Trouble.FAILED, now=self._clock())
