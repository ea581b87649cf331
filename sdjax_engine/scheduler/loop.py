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
from sdjax_engine.scheduler.in_flight import InFlightBatch
from sdjax_engine.scheduler.lane_queue import LaneQueue, Picture
from sdjax_engine.scheduler.lane_shares import LaneShares
from sdjax_engine.scheduler.pending import PendingRequest
from sdjax_engine.scheduler.request_table import RequestTable
from sdjax_engine.scheduler.run_ahead import AT_ONCE, RUNS_AHEAD, next_run_at, runs_ahead
from sdjax_engine.scheduler.watchdog import Watchdog
from sdjax_engine.wording import first_line

logger = logging.getLogger(__name__)

MOST_ATTEMPTS = 2
STUCK = "The devices hung twice while this picture was painted."
COMPILING = 60.0  # seconds that the programs of a lane take to compile, or so

Answer = TypeVar("Answer")


class Scheduler:
    """The requests in the engine and what is done with them; used by one thread at a time."""

    def __init__(
        self,
        queues: Mapping[Lane, LaneQueue],
        *,
        clock: Callable[[], float],
        watchdog: Watchdog,
    ) -> None:
        self.watchdog = watchdog
        self.landed = 0
        self._table = RequestTable(queues)
        self._clock = clock
        self._shares: LaneShares[Lane] = LaneShares()
        self._landed_at = clock()

    @property
    def queues(self) -> Mapping[Lane, LaneQueue]:
        """The desks of the lanes that are open."""
        return self._table.queues

    @property
    def busy(self) -> bool:
        """Whether a turn would do anything now."""
        if self._table.interrupted:
            return True
        if self._next_run_at > self._clock():
            return False
        return bool(self._table.in_flight) or any(True for _ in self._ready_queues())

    @property
    def occupied(self) -> bool:
        """Whether anybody waits for an answer, though there may be nothing to do for them yet."""
        return len(self._table) > 0

    @property
    def wake_at(self) -> float | None:
        """When there will be something to do without anybody coming; None: no such time."""
        if (at := self._next_run_at) > AT_ONCE:
            return at
        times = (queue.seats.wake_at() for queue in self.queues.values())
        return min((time for time in times if time is not None), default=None)

    @property
    def _next_run_at(self) -> float:
        """When the next run should be queued, and not before."""
        in_flight = self._table.in_flight
        at = next_run_at(in_flight, self._landed_at)
        alone = at > AT_ONCE and [queue.lane for queue in self._ready_queues()] == [in_flight[0].queue.lane]
        return at if alone else AT_ONCE

    def open(self, queue: LaneQueue) -> None:
        """Serve one more lane."""
        self._table.queues[queue.lane] = queue

    def join(self, pending: PendingRequest) -> None:
        """Put a request at the end of its lane's line."""
        self._table.join(pending, self._clock())

    def leave(self, pending: PendingRequest) -> None:
        """Do nothing more for a request, which was cancelled; it may be unknown here."""
        self._table.remove(pending)

    def turn(self) -> None:
        """Do the next thing for everybody."""
        self._resume_interrupted()
        while len(self._table.in_flight) > RUNS_AHEAD and self._table.in_flight[0].ready:
            self._land(self._table.in_flight[0])  # nobody waits for an answer that is there
        if self._next_run_at > self._clock():
            return
        queue = self._next_queue()
        if queue is not None:
            self._launch(queue)
        while len(self._table.in_flight) > runs_ahead(queue):
            self._land(self._table.in_flight[0])

    def land_everything(self) -> None:
        """Wait for all that the devices have been given, whoever it was for."""
        while self._table.in_flight:
            self._land(self._table.in_flight[0])

    def anew(self, watchdog: Watchdog) -> Scheduler:
        """Return another with the same requests and empty seats: this one's thread is abandoned.

        Nothing of this one is changed. What the devices were at work for begins anew with the other's first
        turn; a request for which that is the second time is answered with an error.
        """
        other = Scheduler({}, clock=self._clock, watchdog=watchdog)
        other._table = self._table.anew()
        return other

    def _call(
        self, queue: LaneQueue, evaluations: int, function: Callable[..., Answer], *arguments: object
    ) -> Answer:
        """Call the devices, who usually need as long as for so many evaluations."""
        return self.watchdog.call(queue.estimate(evaluations), function, *arguments)

    def _ready_queues(self) -> Iterator[LaneQueue]:
        now = self._clock()
        return (queue for queue in self.queues.values() if queue.seats.ready(now))

    def _next_queue(self) -> LaneQueue | None:
        lane = self._shares.choose({queue.lane: queue.demand for queue in self._ready_queues()})
        return None if lane is None else self.queues[lane]

    def _launch(self, queue: LaneQueue) -> None:
        """Give the devices a desk's next run; if that fails, what they have been given before may not."""
        behind = self._table.in_flight[-1] if self._table.in_flight else None
        batch = InFlightBatch(queue=queue, queued_at=self._clock(), wanted=queue.demand.seats)
        if behind is not None and queue.on_several_devices:
            batch.uneven = behind.uneven or bool(behind.pictures)
        self._table.preparing = batch
        try:
            self._prepare_run(batch)
        except Exception as error:
            logger.exception("a run of %s could not be started", queue.lane)
            for earlier in self._table.batches_of(queue):
                if earlier in self._table.in_flight:  # one that breaks takes the others with it
                    self._land(earlier)
            if self._table.preparing is batch:
                self._recover(queue, [batch], error)
        else:
            batch.charged = queue.estimate(batch.evaluations)
            self._shares.charge(queue.lane, batch.charged, batch.wanted)
            self._table.launch(batch)

    def _prepare_run(self, batch: InFlightBatch) -> None:
        """Seat newcomers, and queue the run and the decoding of the pictures that it finishes."""
        queue, longest = batch.queue, batch.queue.limits().long
        newcomers = self._table.take_seats(queue, self._clock())
        for placement in newcomers:
            placement.request.tell(0)  # before the devices have anything of it: it may break the process
        self._call(queue, longest, queue.device.bring)
        if queue.broken:
            self._call(queue, longest, queue.device.reset)
            queue.broken = False
        brought_at = self._clock()
        if newcomers:
            admitted = {placement.seat: placement.request.prepared for placement in newcomers}
            self._call(queue, longest, queue.device.admit, admitted)
        shared = sum(1 for _ in self._ready_queues()) > 1
        self._table.plan_run(batch, queue.limits(shared=shared))
        spans = {span.seat: (span.start, span.stop) for span in batch.spans}
        batch.run = self._call(queue, longest, queue.device.denoise, spans)
        last = {span.seat: span.request for span in batch.spans if span.last}
        if last:
            decoded = self._call(queue, longest, queue.device.decode, list(last))
            batch.pictures |= {last[seat]: picture for seat, picture in decoded.items()}
        queue.learn_queueing(self._clock() - brought_at)

    def _land(self, batch: InFlightBatch) -> None:
        """Wait for a run, tell its progress and answer for its pictures."""
        queue = batch.queue
        try:
            self._call(queue, batch.evaluations, batch.wait)
        except Exception as error:
            logger.exception("a run of %s broke", queue.lane)
            self._recover(queue, self._table.batches_of(queue), error)
            return
        self._table.land(batch)
        self._measure(batch)
        for span in batch.spans:
            span.request.tell(span.stop)
        self._deliver(batch)
        self._table.retire(batch)

    def _measure(self, batch: InFlightBatch) -> None:
        """Learn how long the devices took, and correct what the lane has been charged."""
        self.landed += 1
        landed = self._clock()
        seconds, self._landed_at = landed - max(batch.queued_at, self._landed_at), landed
        if batch.evaluations:
            batch.queue.learn_run(seconds, batch.evaluations)
            self._shares.charge(batch.queue.lane, seconds - batch.charged, batch.wanted)

    def _deliver(self, batch: InFlightBatch) -> None:
        """Answer with a flight's pictures; those that cannot be read begin anew."""
        queue, shortage = batch.queue, None
        for pending, picture in list(batch.pictures.items()):
            try:
                self._read(batch, pending, picture)
            except Exception as error:
                logger.exception("a picture of %s could not be read", queue.lane)
                if is_out_of_memory(error):
                    shortage = error  # the others may be there; theirs is all that is known to be lost
                else:
                    self._try_again(queue, [pending], Trouble.FAILED, failed(error))
        if shortage is not None and not self._halve(queue, self._table.batches_of(queue)):
            self._try_again(queue, list(batch.pictures), Trouble.FAILED, failed(shortage))

    def _read(self, batch: InFlightBatch, pending: PendingRequest, picture: Picture | None) -> None:
        """Read a picture and answer with it; one that is no number is decoded with more precision, if any."""
        queue = batch.queue
        assert picture is not None, "a flight is launched once the decoding of its pictures is queued"
        pixels = self._call(queue, 1, picture.fetch)
        if pixels is None:
            self._decode_again(queue, pending, picture)
            return
        safety = self._call(queue, 1, picture.fetch_safety)
        seconds = self._clock() - pending.seated_at
        if batch.run is not None:
            queue.learn_image(seconds)
        negative, prompt = pending.prepared.facts
        image = Image(
            request=pending.prepared.request,
            pixels=pixels,
            seconds=seconds,
            prompt=prompt,
            negative_prompt=negative,
            safety=safety,
        )
        self._table.remove(pending)
        pending.give(image)

    def _decode_again(self, queue: LaneQueue, pending: PendingRequest, picture: Picture) -> None:
        latents = self._call(queue, 1, picture.fetch_latents)
        again = None
        if not pending.decoded_again:
            self._call(queue, 1, queue.device.bring)
            again = self._call(queue, 1, queue.device.decode_again, latents)
        if again is None:
            self._fail(pending, PaintingFailed(why_no_picture(latents)))
        else:
            pending.decoded_again = True
            self._table.decode_alone({pending: again}, queue, self._clock())

    def _recover(self, queue: LaneQueue, lost: Sequence[InFlightBatch], error: Exception) -> None:
        """Let everybody begin anew who sits at a desk or waits for one of its `lost` flights."""
        if not (is_out_of_memory(error) and self._halve(queue, lost)):
            self._empty(queue, lost, error)

    def _halve(self, queue: LaneQueue, lost: Sequence[InFlightBatch]) -> bool:
        """Go on with less memory, every request there beginning anew; False where nothing can be changed."""
        try:
            halved = self.watchdog.call(COMPILING, queue.device.halve)
        except Exception as error:
            logger.exception("%s cannot make do with fewer seats", queue.lane)
            self._empty(queue, self._table.batches_of(queue), error)
            return True
        if halved:
            requests = self._table.empty(queue, lost)
            queue.broken = False
            self._table.begin_anew(queue, requests, alone=False, now=self._clock())
            logger.warning("out of memory: %s goes on with %d seats", queue.lane, len(queue.seats))
            for pending in requests:
                pending.tell_trouble(Trouble.OUT_OF_MEMORY)
        return halved

    def _empty(self, queue: LaneQueue, lost: Sequence[InFlightBatch], error: Exception) -> None:
        """Empty the seats, which an error has broken, and let those who lose by it try again."""
        requests = self._table.empty(queue, lost)
        queue.broken = True
        self._try_again(queue, requests, Trouble.FAILED, failed(error))

    def _resume_interrupted(self) -> None:
        """Let whatever the abandoned thread had given its devices begin anew."""
        by_queue: dict[LaneQueue, list[PendingRequest]] = {}
        for pending in self._table.interrupted:
            by_queue.setdefault(self.queues[pending.prepared.request.lane], []).append(pending)
        for queue, requests in by_queue.items():
            self._try_again(queue, requests, Trouble.STUCK, PaintingFailed(STUCK))

    def _try_again(
        self, queue: LaneQueue, requests: Sequence[PendingRequest], trouble: Trouble, error: EngineError
    ) -> None:
        """Let these begin anew before others, alone if an error is suspected; the second time, they fail."""
        again = {pending: None for pending in requests if pending.attempts + 1 < MOST_ATTEMPTS}
        for pending in again:
            pending.attempts += 1
        self._table.begin_anew(queue, list(again), alone=trouble is Trouble.FAILED, now=self._clock())
        for pending in requests:
            if pending in again:
                pending.tell_trouble(trouble)
            else:
                self._fail(pending, error)

    def _fail(self, pending: PendingRequest, error: EngineError) -> None:
        self._table.remove(pending)
        pending.fail(error)


def failed(error: Exception) -> PaintingFailed:
    """Return what whoever an error of the devices has touched twice is told."""
    return PaintingFailed(f"The devices failed: {first_line(error)}")
