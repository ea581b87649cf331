"""The engine's thread: seats people, keeps the devices busy, and answers everybody.

One turn of the loop serves one lane, that of the image which has waited longest since it was
submitted, so that no lane starves:

    send away who has cancelled ─► seat newcomers ─► queue a run ─► queue the decoding of the finished
    ─► only then wait for the run before this one, tell its progress, answer for its pictures

The devices thus always have the next run before them while the host waits.

An error of the devices may show when a run is queued, when it has been waited for, or when a picture is
read. Whoever the error can have touched is answered with it, and nobody else: a picture that cannot be
read is one person's; a run that fails takes with it everybody in the lane's seats, and the lane starts
again with empty ones.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

from sdjax_engine.lanes import DeviceLane, Picture, Run
from sdjax_engine.loaded import Prepared
from sdjax_engine.request import MAX_SEED, EngineClosed, Image, Lane, OnProgress, PaintingFailed
from sdjax_engine.seats import Placement, Seats, Span
from sdjax_engine.tickets import Ticket
from sdjax_engine.wording import first_line

logger = logging.getLogger(__name__)

RUNS_AHEAD = 1  # runs that the devices have before them while the host waits for an earlier one
MEMORY_OF_MEAN = 0.8  # how much of the moving mean of seconds an image leaves as it was
NOT_A_NUMBER = "The picture came out as no picture at all (not a number): another seed may work."


@dataclass(kw_only=True, eq=False)
class Desk:
    """What serves one lane: its line and seats, and what the devices hold of them."""

    device: DeviceLane
    seats: Seats[Ticket]
    seconds_per_image: float | None = None
    broken: bool = False

    def learn(self, seconds: float) -> None:
        """Let the time of one more image into the moving mean."""
        mean = seconds if self.seconds_per_image is None else self.seconds_per_image
        self.seconds_per_image = MEMORY_OF_MEAN * mean + (1 - MEMORY_OF_MEAN) * seconds


@dataclass(kw_only=True, eq=False)
class Flight:
    """A run that the devices have been given and the host has not yet waited for."""

    desk: Desk
    spans: list[Span[Ticket]] = field(default_factory=list)
    run: Run | None = None
    pictures: dict[int, Picture] = field(default_factory=dict)

    def wait(self) -> None:
        """Return when the devices have made the run; raises what broke it."""
        if self.run is not None:
            self.run.wait()

    @property
    def finished(self) -> list[Ticket]:
        """Whose pictures this run finishes: their seats are free already."""
        return [span.ticket for span in self.spans if span.ticket and span.last]


class PaintingThread:
    """The thread and the door to it; `submit` and `close` may be called from any thread."""

    def __init__(self, desks: Mapping[Lane, Desk], *, clock: Callable[[], float]) -> None:
        self._desks = desks
        self._clock = clock
        self._door = threading.Condition()
        self._arrivals: list[Ticket] = []
        self._count = 0
        self._closing = False
        self._abandoned = False
        self._flights: deque[Flight] = deque()
        self._thread = threading.Thread(target=self._work, name="sdjax-engine", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def submit(self, prepared: Prepared, on_progress: OnProgress | None) -> Future[Image]:
        """Put a request in its lane's line; raises EngineClosed."""
        with self._door:
            if self._closing:
                raise EngineClosed("The engine is closing and takes no more requests.")
            self._count += 1
            ticket = Ticket(prepared=prepared, future=Future(), on_progress=on_progress, number=self._count)
            self._arrivals.append(ticket)
            self._door.notify()
        return ticket.future

    def close(self, *, drain: bool) -> None:
        """Let nobody in any more, and return when everybody has been answered."""
        with self._door:
            self._closing = True
            self._abandoned = self._abandoned or not drain
            self._door.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _work(self) -> None:
        try:
            while self._let_in():
                self._turn()
        finally:
            self._lock_up()

    def _let_in(self) -> bool:
        """Wait until there is something to do, and let arrivals join their lines; False: time to go home."""
        with self._door:
            while not (self._arrivals or self._busy() or self._closing):
                self._door.wait()
            arrivals, self._arrivals = self._arrivals, []
            abandoned = self._abandoned
        for ticket in arrivals:
            request = ticket.prepared.request
            self._desks[request.lane].seats.join(ticket, ticket.prepared.evaluations)
        if abandoned:
            for ticket in self._present():
                ticket.future.cancel()
        return self._busy()

    def _lock_up(self) -> None:
        """Let nobody in, and answer whoever is still here: nobody, unless the loop itself has broken."""
        with self._door:
            self._closing = True
            left = [*self._present(), *self._arrivals]
        for ticket in left:
            ticket.fail(EngineClosed("The engine has stopped."))

    def _present(self) -> Iterator[Ticket]:
        for desk in self._desks.values():
            yield from desk.seats.tickets
        for flight in self._flights:
            yield from flight.finished

    def _busy(self) -> bool:
        return bool(self._flights) or any(desk.seats.tickets for desk in self._desks.values())

    def _turn(self) -> None:
        self._send_away_cancelled()
        desk = self._next_desk()
        if desk is not None:
            self._launch(desk)
        while len(self._flights) > (RUNS_AHEAD if desk else 0):
            self._land(self._flights[0])

    def _send_away_cancelled(self) -> None:
        for desk in self._desks.values():
            for ticket in desk.seats.drop(lambda ticket: ticket.given_up):
                ticket.dismiss()

    def _next_desk(self) -> Desk | None:
        """The desk with the image that has been in the engine longest."""
        oldest = {
            desk: min(ticket.number for ticket in desk.seats.tickets)
            for desk in self._desks.values()
            if desk.seats.tickets
        }
        return min(oldest, key=oldest.__getitem__, default=None)

    def _launch(self, desk: Desk) -> None:
        """Give the devices a desk's next run; if that fails, what they have been given before may not."""
        flight = Flight(desk=desk)
        try:
            self._prepare_run(flight)
        except Exception as error:
            logger.exception("a run of %s could not be started", desk.device.lane)
            self._clear(desk, [flight], error)
            for earlier in self._flights_of(desk):
                self._land(earlier)
        else:
            self._flights.append(flight)

    def _prepare_run(self, flight: Flight) -> None:
        """Seat newcomers, and queue the run and the decoding of the pictures that it finishes."""
        desk = flight.desk
        placements = desk.seats.take_seats()
        now = self._clock()
        for placement in placements:
            if not placement.padding:
                placement.ticket.seated_at = now
        desk.device.bring()
        if desk.broken:
            desk.device.reset()
            desk.broken = False
        if placements:
            desk.device.admit({placement.seat: _prepared(placement) for placement in placements})
        flight.spans = desk.seats.plan_run()
        flight.run = desk.device.denoise({span.seat: (span.start, span.stop) for span in flight.spans})
        last = [span.seat for span in flight.spans if span.ticket and span.last]
        flight.pictures = desk.device.decode(last)

    def _land(self, flight: Flight) -> None:
        """Wait for a run, tell its progress and answer for its pictures.

        Until then it stays among the flights, so that nobody in it can be forgotten.
        """
        try:
            flight.wait()
        except Exception as error:
            logger.exception("a run of %s broke", flight.desk.device.lane)
            self._clear(flight.desk, self._flights_of(flight.desk), error)
        else:
            for span in flight.spans:
                if span.ticket is not None:
                    span.ticket.tell(span.stop)
                    if span.last:
                        self._deliver(flight.desk, span.ticket, flight.pictures[span.seat])
            self._flights.remove(flight)

    def _flights_of(self, desk: Desk) -> list[Flight]:
        return [flight for flight in self._flights if flight.desk is desk]

    def _clear(self, desk: Desk, lost: list[Flight], error: Exception) -> None:
        """Answer everybody in a desk's seats and in its `lost` flights with the error of the devices."""
        self._flights = deque(flight for flight in self._flights if flight not in lost)
        desk.broken = True
        finished = [ticket for flight in lost for ticket in flight.finished]
        for ticket in (*finished, *desk.seats.clear_seats()):
            ticket.fail(_failed(error))

    def _deliver(self, desk: Desk, ticket: Ticket, picture: Picture) -> None:
        try:
            pixels, safety = picture.fetch(), picture.fetch_safety()
        except Exception as error:
            logger.exception("a picture of %s could not be read", desk.device.lane)
            ticket.fail(_failed(error))
            return
        if pixels is None:
            ticket.fail(PaintingFailed(NOT_A_NUMBER))
            return
        seconds = self._clock() - ticket.seated_at
        desk.learn(seconds)
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


def _failed(error: Exception) -> PaintingFailed:
    return PaintingFailed(f"The devices failed: {first_line(error)}")


def _prepared(placement: Placement[Ticket]) -> Prepared:
    """What the devices are told of a placement: padding paints the same with a later seed."""
    prepared = placement.ticket.prepared
    seed = (prepared.request.seed + placement.padding) % (MAX_SEED + 1)
    return dataclasses.replace(prepared, request=dataclasses.replace(prepared.request, seed=seed))
