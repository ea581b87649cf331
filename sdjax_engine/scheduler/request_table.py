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
from sdjax_engine.scheduler.in_flight import InFlightBatch
from sdjax_engine.scheduler.lane_queue import LaneQueue, Picture
from sdjax_engine.scheduler.pending import PendingRequest, State
from sdjax_engine.scheduler.seats import Placement, RunLimits


class RequestTable:
    """The requests, by the desks and flights that they are in; changed by one thread only.

    `interrupted` requests were with devices that another thread was abandoned at; they are in no other place.
    """

    def __init__(self, queues: Mapping[Lane, LaneQueue]) -> None:
        self.queues = dict(queues)
        self.in_flight: deque[InFlightBatch] = deque()
        self.preparing: InFlightBatch | None = None
        self.interrupted: dict[PendingRequest, None] = {}
        self._by_request: dict[Request, dict[PendingRequest, None]] = {}
        self._present: dict[PendingRequest, None] = {}

    def __len__(self) -> int:
        return len(self._present)

    def __iter__(self) -> Iterator[PendingRequest]:
        return iter(self._present)

    def join(self, pending: PendingRequest, now: float) -> None:
        """Put a request at the end of its lane's line."""
        self._remember(pending)
        queue = self.queues[pending.prepared.request.lane]
        queue.seats.join(pending, pending.prepared.evaluations, now=now)

    def remove(self, pending: PendingRequest) -> None:
        """Take a request out of wherever it is; nothing for one that is not here."""
        if pending not in self._present:
            return
        request = pending.prepared.request
        del self._present[pending]
        same = self._by_request[request]
        del same[pending]
        if not same:
            del self._by_request[request]
        self.interrupted.pop(pending, None)
        self.queues[request.lane].seats.leave(pending)
        for batch in self.every_batch():
            batch.pictures.pop(pending, None)

    def take_seats(self, queue: LaneQueue, now: float) -> list[Placement[PendingRequest]]:
        """Give the free seats of a desk to whoever is first in its line."""
        placements = queue.seats.take_seats(now)
        for placement in placements:
            placement.request.seated_at = now
            placement.request.move(State.SEATED)
        return placements

    def plan_run(self, batch: InFlightBatch, limits: RunLimits) -> None:
        """Decide what a flight's run does; requests that it finishes go from their seats to the flight."""
        batch.spans = batch.queue.seats.plan_run(limits)
        for span in batch.spans:
            if span.last:
                batch.pictures[span.request] = None
                span.request.move(State.IN_FLIGHT)

    def launch(self, batch: InFlightBatch) -> None:
        """Put a flight that has been prepared behind those under way."""
        self.preparing = None
        self.in_flight.append(batch)

    def decode_alone(self, pictures: Mapping[PendingRequest, Picture], queue: LaneQueue, now: float) -> None:
        """Give requests, of the line or of a flight, a flight of their own in which latents are decoded."""
        for pending in pictures:
            queue.seats.leave(pending)
            for batch in self.every_batch():
                batch.pictures.pop(pending, None)
            pending.move(State.IN_FLIGHT)
        self.in_flight.append(InFlightBatch(queue=queue, queued_at=now, pictures=dict(pictures)))

    def land(self, batch: InFlightBatch) -> None:
        """Note that the devices have done a flight's work."""
        for pending in batch.pictures:
            pending.move(State.DECODED)

    def retire(self, batch: InFlightBatch) -> None:
        """Forget a flight that everybody has left."""
        if batch in self.in_flight:
            self.in_flight.remove(batch)

    def begin_anew(
        self, queue: LaneQueue, requests: Sequence[PendingRequest], *, alone: bool, now: float
    ) -> None:
        """Put requests at the front of their line; those to be painted `alone` share no run with others."""
        for pending in requests:
            self.interrupted.pop(pending, None)
            for batch in self.every_batch():
                batch.pictures.pop(pending, None)
            pending.decoded_again = False
            pending.move(State.WAITING)
        people = [(pending, pending.prepared.evaluations) for pending in requests]
        queue.seats.rejoin(people, alone=alone, now=now)

    def empty(self, queue: LaneQueue, lost: Sequence[InFlightBatch]) -> list[PendingRequest]:
        """Interrupt whatever sits at a desk or is in one of its `lost` flights, and return it."""
        requests = [pending for batch in lost for pending in batch.pictures]
        requests += queue.clear_seats()
        self.interrupted |= dict.fromkeys(requests)
        self.in_flight = deque(batch for batch in self.in_flight if batch not in lost)
        if self.preparing in lost:
            self.preparing = None
        return requests

    def every_batch(self) -> Iterator[InFlightBatch]:
        """The flights under way and that being prepared."""
        yield from self.in_flight
        if self.preparing is not None:
            yield self.preparing

    def batches_of(self, queue: LaneQueue) -> list[InFlightBatch]:
        """The flights of one desk."""
        return [batch for batch in self.every_batch() if batch.queue is queue]

    def anew(self) -> RequestTable:
        """Return another of the same requests: the lines as they are, seats and flights empty."""
        other = RequestTable({lane: queue.anew() for lane, queue in self.queues.items()})
        for pending in self._present:
            other._remember(pending)
            if pending.state is not State.WAITING:
                other.interrupted[pending] = None
        return other

    def _remember(self, pending: PendingRequest) -> None:
        self._present[pending] = None
        self._by_request.setdefault(pending.prepared.request, {})[pending] = None
