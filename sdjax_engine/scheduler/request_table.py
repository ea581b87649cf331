"""Every request of the scheduler that is not answered, each in one place that its state names.

    WAITING             in the queue of its lane
    SEATED              in a seat of its lane
    IN_FLIGHT, DECODED  among the pictures of one batch

No method waits for the devices or calls a caller back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sdjax_engine.lane.decoding import Picture
from sdjax_engine.lane.preview_program import Estimates
from sdjax_engine.lane.runs import Run
from sdjax_engine.request import Lane
from sdjax_engine.scheduler.lane_queue import LaneQueue
from sdjax_engine.scheduler.pending import PendingRequest, State
from sdjax_engine.scheduler.seats import Placement, RunLimits, Span


@dataclass(kw_only=True)
class BatchTimes:
    """How long the host took to queue a batch, and whether the devices waited for it.

    The move of the model's parameters began at `moved_at`; None without a move. `queueing` is how many
    seconds the host took for all of the batch, `dispatching` those for its evaluations alone. It is `late`
    where the devices had finished all earlier work before its admission or its evaluations were queued.
    `idle_after` says that the devices were idle after this batch, because the next one was late.
    """

    moved_at: float | None = None
    queueing: float | None = None
    dispatching: float = 0.0
    late: bool = False
    idle_after: bool = False


@dataclass(kw_only=True, eq=False)
class InFlightBatch:
    """Work that the devices have and the host has not waited for: a run with the pictures that it finishes.

    `estimates` are those of the `previewed` seats after the run, None in most runs. Without a `run` it is the
    decoding of latents alone. `pictures` are None until their decoding is queued; a request leaves them when
    it is answered or starts again. `landed` says that the devices have done the work. `wanted` seats were
    charged to the lane for `charged` seconds when the batch was queued, at `queued_at`. It is `uneven` where
    some devices start it later than others, because they decode first.
    """

    queue: LaneQueue
    queued_at: float
    spans: list[Span[PendingRequest]] = field(default_factory=list)
    evaluations: int = 0
    run: Run | None = None
    estimates: Estimates | None = None
    previewed: list[int] = field(default_factory=list)
    pictures: dict[PendingRequest, Picture | None] = field(default_factory=dict)
    times: BatchTimes = field(default_factory=BatchTimes)
    landed: bool = False
    wanted: int = 1
    charged: float = 0.0
    uneven: bool = False

    def share_out(self, seconds: float) -> None:
        """Divide the time of the devices, that of empty seats too, among the batch's requests by their rows.

        The time of decoding alone is divided equally. Each of several devices took `seconds`.
        """
        parts = {
            span.request: span.stop
            - span.start
            + int(span.request.prepared.guided[span.start : span.stop].sum())
            for span in self.spans
        } or dict.fromkeys(self.pictures, 1)
        each = seconds * self.queue.devices / max(1, sum(parts.values()))
        for pending, part in parts.items():
            pending.device_seconds += each * part


class RequestTable:
    """The open lanes, and the requests by the queues and batches that they are in; one thread changes it.

    `present` are all requests of the table, wherever they are.
    """

    def __init__(self, queues: Mapping[Lane, LaneQueue]) -> None:
        self.queues = dict(queues)
        self.in_flight: deque[InFlightBatch] = deque()
        self.preparing: InFlightBatch | None = None
        self.present: dict[PendingRequest, None] = {}

    def open(self, queue: LaneQueue) -> None:
        """Serve one more lane."""
        self.queues[queue.lane] = queue

    def close(self, lane: Lane) -> None:
        """Stop serving a lane, and free its seats; it must have no requests and not be in `busy_lanes`."""
        if (queue := self.queues.pop(lane, None)) is not None:
            queue.device.free()

    @property
    def busy_lanes(self) -> set[Lane]:
        """The lanes of which the devices still have work."""
        return {batch.queue.lane for batch in self.every_batch()}

    def join(self, pending: PendingRequest) -> None:
        """Put a request at the end of its lane's queue; at the front for its second pass."""
        self.present[pending] = None
        seats, evaluations = self.queues[pending.lane].seats, pending.prepared.evaluations
        if pending.seconds_of_first_pass is not None:
            seats.rejoin([(pending, evaluations)], alone=False)
        else:
            seats.join(pending, evaluations)

    def plan_run(self, batch: InFlightBatch, limits: RunLimits) -> list[Placement[PendingRequest]]:
        """Give free seats to the requests that have waited longest, and decide what the run of a batch does.

        Requests that it finishes go from their seats to the batch. Returns those that have just got a seat.
        """
        seats, now = batch.queue.seats, batch.queued_at
        placements = seats.take_seats()
        batch.spans = seats.plan_run(limits)
        batch.evaluations = max((span.stop - span.start for span in batch.spans), default=0)
        for placement in placements:
            placement.request.seated_at = now
            placement.request.move(State.SEATED)
        for span in batch.spans:
            if span.last:
                batch.pictures[span.request] = None
                span.request.move(State.IN_FLIGHT)
        return placements

    def launch(self, batch: InFlightBatch) -> None:
        """Put a batch that has been prepared behind those in flight."""
        self.preparing = None
        self.in_flight.append(batch)

    def land(self, batch: InFlightBatch) -> None:
        """Note that the devices have done a batch's work.

        The batch is forgotten when its last picture has left it.
        """
        for pending in batch.pictures:
            pending.move(State.DECODED)
        batch.landed = True
        self._forget_done()

    def remove(self, pending: PendingRequest) -> None:
        """Take a request out of the place where it is; nothing for one that is not here."""
        if pending not in self.present:
            return
        del self.present[pending]
        self._take_from_batches([pending])
        if pending.state is not State.DECODED:
            self.queues[pending.lane].seats.leave(pending)

    def decode_alone(self, pictures: Mapping[PendingRequest, Picture], queue: LaneQueue, now: float) -> None:
        """Move requests to a batch of their own, in which their latents are decoded."""
        self._take_from_batches(pictures)
        for pending in pictures:
            queue.seats.leave(pending)
            pending.move(State.IN_FLIGHT)
        self.in_flight.append(InFlightBatch(queue=queue, queued_at=now, pictures=dict(pictures)))

    def restart(self, queue: LaneQueue, requests: Sequence[PendingRequest], *, alone: bool) -> None:
        """Put requests back at the front of their queue; those to be painted `alone` share no run."""
        self._take_from_batches(requests)
        for pending in requests:
            pending.decoded_again = False
            pending.move(State.WAITING)
        first = [(pending, pending.prepared.evaluations) for pending in requests]
        queue.seats.rejoin(first, alone=alone)

    def empty(self, queue: LaneQueue, lost: Sequence[InFlightBatch]) -> list[PendingRequest]:
        """Take every request from the seats of a lane and from its `lost` batches, and return them.

        The caller restarts or removes each of them.
        """
        requests = [pending for batch in lost for pending in batch.pictures]
        requests += queue.clear_seats()
        self.in_flight = deque(batch for batch in self.in_flight if batch not in lost)
        if self.preparing in lost:
            self.preparing = None
        return requests

    def every_batch(self) -> Iterator[InFlightBatch]:
        """Yield the batches in flight and the batch that is being prepared."""
        yield from self.in_flight
        if self.preparing is not None:
            yield self.preparing

    def batches_of(self, queue: LaneQueue) -> list[InFlightBatch]:
        """Return the batches of one lane."""
        return [batch for batch in self.every_batch() if batch.queue is queue]

    def _take_from_batches(self, requests: Iterable[PendingRequest]) -> None:
        for pending in requests:
            for batch in self.every_batch():
                batch.pictures.pop(pending, None)
        self._forget_done()

    def _forget_done(self) -> None:
        """Forget the batches whose work is done and whose pictures have all left."""
        self.in_flight = deque(each for each in self.in_flight if not each.landed or each.pictures)
