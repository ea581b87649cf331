"""The engine's loop: seats requests, keeps the devices busy, and answers; it has no thread itself.

One turn serves one lane:

    seat newcomers ─► queue a run ─► queue the decoding of the finished
    ─► only then wait for the run before this one, tell its progress, answer for its pictures

The devices thus always have the next run before them while the host waits. Where each request is, the
`RequestTable` knows; it changes between calls of the devices only, and each such call goes through the
`Watch`, so that a thread that was abandoned in a call changes nothing afterwards.

An error of the devices may show when a run is queued, when it has been waited for, or when a picture is
read. Every request that the error can have touched begins anew, once and alone, so that an image that breaks
the devices breaks no other; a request that is touched again is answered with the error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from sdjax_engine.lane.device_lane import why_no_picture
from sdjax_engine.memory.devices import is_out_of_memory
from sdjax_engine.request import EngineError, Image, Lane, PaintingFailed, Trouble
from sdjax_engine.scheduler.in_flight import Flight
from sdjax_engine.scheduler.lane_queue import Desk, Picture
from sdjax_engine.scheduler.lane_shares import Turns
from sdjax_engine.scheduler.pending import Ticket
from sdjax_engine.scheduler.request_table import RequestTable
from sdjax_engine.scheduler.run_ahead import AT_ONCE, RUNS_AHEAD, next_run_at, runs_ahead
from sdjax_engine.scheduler.watchdog import Watch
from sdjax_engine.wording import first_line

logger = logging.getLogger(__name__)

MOST_ATTEMPTS = 2
STUCK = "The devices hung twice while this picture was painted."
COMPILING = 60.0  # seconds that the programs of a lane take to compile, or so

Answer = TypeVar("Answer")


class Painting:
    """The requests in the engine and what is done with them; used by one thread at a time."""

    def __init__(
        self,
        desks: Mapping[Lane, Desk],
        *,
        clock: Callable[[], float],
        watch: Watch,
    ) -> None:
        self.watch = watch
        self.landed = 0
        self._table = RequestTable(desks)
        self._clock = clock
        self._turns: Turns[Lane] = Turns()
        self._landed_at = clock()

    @property
    def desks(self) -> Mapping[Lane, Desk]:
        """The desks of the lanes that are open."""
        return self._table.desks

    @property
    def busy(self) -> bool:
        """Whether a turn would do anything now."""
        if self._table.interrupted:
            return True
        if self._next_run_at > self._clock():
            return False
        return bool(self._table.flights) or any(True for _ in self._ready_desks())

    @property
    def occupied(self) -> bool:
        """Whether anybody waits for an answer, though there may be nothing to do for them yet."""
        return len(self._table) > 0

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
        flights = self._table.flights
        at = next_run_at(flights, self._landed_at)
        alone = at > AT_ONCE and [desk.lane for desk in self._ready_desks()] == [flights[0].desk.lane]
        return at if alone else AT_ONCE

    def open(self, desk: Desk) -> None:
        """Serve one more lane."""
        self._table.desks[desk.lane] = desk

    def join(self, ticket: Ticket) -> None:
        """Put a request at the end of its lane's line."""
        self._table.join(ticket, self._clock())

    def leave(self, ticket: Ticket) -> None:
        """Do nothing more for a request, which was cancelled; it may be unknown here."""
        self._table.remove(ticket)

    def turn(self) -> None:
        """Do the next thing for everybody."""
        self._resume_interrupted()
        while len(self._table.flights) > RUNS_AHEAD and self._table.flights[0].ready:
            self._land(self._table.flights[0])  # nobody waits for an answer that is there
        if self._next_run_at > self._clock():
            return
        desk = self._next_desk()
        if desk is not None:
            self._launch(desk)
        while len(self._table.flights) > runs_ahead(desk):
            self._land(self._table.flights[0])

    def land_everything(self) -> None:
        """Wait for all that the devices have been given, whoever it was for."""
        while self._table.flights:
            self._land(self._table.flights[0])

    def anew(self, watch: Watch) -> Painting:
        """Return another with the same requests and empty seats: this one's thread is abandoned.

        Nothing of this one is changed. What the devices were at work for begins anew with the other's first
        turn; a request for which that is the second time is answered with an error.
        """
        other = Painting({}, clock=self._clock, watch=watch)
        other._table = self._table.anew()
        return other

    def _call(
        self, desk: Desk, evaluations: int, function: Callable[..., Answer], *arguments: object
    ) -> Answer:
        """Call the devices, who usually need as long as for so many evaluations."""
        return self.watch.call(desk.estimate(evaluations), function, *arguments)

    def _ready_desks(self) -> Iterator[Desk]:
        now = self._clock()
        return (desk for desk in self.desks.values() if desk.seats.ready(now))

    def _next_desk(self) -> Desk | None:
        lane = self._turns.choose({desk.lane: desk.demand for desk in self._ready_desks()})
        return None if lane is None else self.desks[lane]

    def _launch(self, desk: Desk) -> None:
        """Give the devices a desk's next run; if that fails, what they have been given before may not."""
        behind = self._table.flights[-1] if self._table.flights else None
        flight = Flight(desk=desk, queued_at=self._clock(), wanted=desk.demand.seats)
        if behind is not None and desk.on_several_devices:
            flight.uneven = behind.uneven or bool(behind.pictures)
        self._table.preparing = flight
        try:
            self._prepare_run(flight)
        except Exception as error:
            logger.exception("a run of %s could not be started", desk.lane)
            for earlier in self._table.flights_of(desk):
                if earlier in self._table.flights:  # one that breaks takes the others with it
                    self._land(earlier)
            if self._table.preparing is flight:
                self._recover(desk, [flight], error)
        else:
            flight.charged = desk.estimate(flight.evaluations)
            self._turns.charge(desk.lane, flight.charged, flight.wanted)
            self._table.launch(flight)

    def _prepare_run(self, flight: Flight) -> None:
        """Seat newcomers, and queue the run and the decoding of the pictures that it finishes."""
        desk, longest = flight.desk, flight.desk.limits().long
        newcomers = self._table.take_seats(desk, self._clock())
        for placement in newcomers:
            placement.ticket.tell(0)  # before the devices have anything of it: it may break the process
        self._call(desk, longest, desk.device.bring)
        if desk.broken:
            self._call(desk, longest, desk.device.reset)
            desk.broken = False
        brought_at = self._clock()
        if newcomers:
            admitted = {placement.seat: placement.ticket.prepared for placement in newcomers}
            self._call(desk, longest, desk.device.admit, admitted)
        shared = sum(1 for _ in self._ready_desks()) > 1
        self._table.plan_run(flight, desk.limits(shared=shared))
        spans = {span.seat: (span.start, span.stop) for span in flight.spans}
        flight.run = self._call(desk, longest, desk.device.denoise, spans)
        last = {span.seat: span.ticket for span in flight.spans if span.last}
        if last:
            decoded = self._call(desk, longest, desk.device.decode, list(last))
            flight.pictures |= {last[seat]: picture for seat, picture in decoded.items()}
        desk.learn_queueing(self._clock() - brought_at)

    def _land(self, flight: Flight) -> None:
        """Wait for a run, tell its progress and answer for its pictures."""
        desk = flight.desk
        try:
            self._call(desk, flight.evaluations, flight.wait)
        except Exception as error:
            logger.exception("a run of %s broke", desk.lane)
            self._recover(desk, self._table.flights_of(desk), error)
            return
        self._table.land(flight)
        self._measure(flight)
        for span in flight.spans:
            span.ticket.tell(span.stop)
        self._deliver(flight)
        self._table.retire(flight)

    def _measure(self, flight: Flight) -> None:
        """Learn how long the devices took, and correct what the lane has been charged."""
        self.landed += 1
        landed = self._clock()
        seconds, self._landed_at = landed - max(flight.queued_at, self._landed_at), landed
        if flight.evaluations:
            flight.desk.learn_run(seconds, flight.evaluations)
            self._turns.charge(flight.desk.lane, seconds - flight.charged, flight.wanted)

    def _deliver(self, flight: Flight) -> None:
        """Answer with a flight's pictures; those that cannot be read begin anew."""
        desk, shortage = flight.desk, None
        for ticket, picture in list(flight.pictures.items()):
            try:
                self._read(flight, ticket, picture)
            except Exception as error:
                logger.exception("a picture of %s could not be read", desk.lane)
                if is_out_of_memory(error):
                    shortage = error  # the others may be there; theirs is all that is known to be lost
                else:
                    self._try_again(desk, [ticket], Trouble.FAILED, failed(error))
        if shortage is not None and not self._halve(desk, self._table.flights_of(desk)):
            self._try_again(desk, list(flight.pictures), Trouble.FAILED, failed(shortage))

    def _read(self, flight: Flight, ticket: Ticket, picture: Picture | None) -> None:
        """Read a picture and answer with it; one that is no number is decoded with more precision, if any."""
        desk = flight.desk
        assert picture is not None, "a flight is launched once the decoding of its pictures is queued"
        pixels = self._call(desk, 1, picture.fetch)
        if pixels is None:
            self._decode_again(desk, ticket, picture)
            return
        safety = self._call(desk, 1, picture.fetch_safety)
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
        self._table.remove(ticket)
        ticket.give(image)

    def _decode_again(self, desk: Desk, ticket: Ticket, picture: Picture) -> None:
        latents = self._call(desk, 1, picture.fetch_latents)
        again = None
        if not ticket.decoded_again:
            self._call(desk, 1, desk.device.bring)
            again = self._call(desk, 1, desk.device.decode_again, latents)
        if again is None:
            self._fail(ticket, PaintingFailed(why_no_picture(latents)))
        else:
            ticket.decoded_again = True
            self._table.decode_alone({ticket: again}, desk, self._clock())

    def _recover(self, desk: Desk, lost: Sequence[Flight], error: Exception) -> None:
        """Let everybody begin anew who sits at a desk or waits for one of its `lost` flights."""
        if not (is_out_of_memory(error) and self._halve(desk, lost)):
            self._empty(desk, lost, error)

    def _halve(self, desk: Desk, lost: Sequence[Flight]) -> bool:
        """Go on with less memory, every request there beginning anew; False where nothing can be changed."""
        try:
            halved = self.watch.call(COMPILING, desk.device.halve)
        except Exception as error:
            logger.exception("%s cannot make do with fewer seats", desk.lane)
            self._empty(desk, self._table.flights_of(desk), error)
            return True
        if halved:
            tickets = self._table.empty(desk, lost)
            desk.broken = False
            self._table.begin_anew(desk, tickets, alone=False, now=self._clock())
            logger.warning("out of memory: %s goes on with %d seats", desk.lane, len(desk.seats))
            for ticket in tickets:
                ticket.tell_trouble(Trouble.OUT_OF_MEMORY)
        return halved

    def _empty(self, desk: Desk, lost: Sequence[Flight], error: Exception) -> None:
        """Empty the seats, which an error has broken, and let those who lose by it try again."""
        tickets = self._table.empty(desk, lost)
        desk.broken = True
        self._try_again(desk, tickets, Trouble.FAILED, failed(error))

    def _resume_interrupted(self) -> None:
        """Let whatever the abandoned thread had given its devices begin anew."""
        by_desk: dict[Desk, list[Ticket]] = {}
        for ticket in self._table.interrupted:
            by_desk.setdefault(self.desks[ticket.prepared.request.lane], []).append(ticket)
        for desk, tickets in by_desk.items():
            self._try_again(desk, tickets, Trouble.STUCK, PaintingFailed(STUCK))

    def _try_again(self, desk: Desk, tickets: Sequence[Ticket], trouble: Trouble, error: EngineError) -> None:
        """Let these begin anew before others, alone if an error is suspected; the second time, they fail."""
        again = {ticket: None for ticket in tickets if ticket.attempts + 1 < MOST_ATTEMPTS}
        for ticket in again:
            ticket.attempts += 1
        self._table.begin_anew(desk, list(again), alone=trouble is Trouble.FAILED, now=self._clock())
        for ticket in tickets:
            if ticket in again:
                ticket.tell_trouble(trouble)
            else:
                self._fail(ticket, error)

    def _fail(self, ticket: Ticket, error: EngineError) -> None:
        self._table.remove(ticket)
        ticket.fail(error)


def failed(error: Exception) -> PaintingFailed:
    """Return what whoever an error of the devices has touched twice is told."""
    return PaintingFailed(f"The devices failed: {first_line(error)}")
