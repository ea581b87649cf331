"""The scheduler: gives requests their seats, keeps the devices busy, and answers; it has no thread itself.

One turn serves one lane:

    take seats, plan ─► queue a run ─► queue the decoding of the pictures that it finishes
    ─► only then wait for the run before this one, tell its progress, answer with its pictures

So the devices always have the next run while the host waits. The `RequestTable` knows where each request is.
Every call of the devices goes through the `Watchdog`.

An error of the devices may show when a run is queued, when its end is waited for, or when a picture is read.
Every request that the error can have touched is started again once, and alone, so that an image that breaks
the devices breaks no other image. A request that is touched a second time is answered with the error. After
a shortage of memory the lane goes on with less memory, if it can: its requests are started again together,
and this is not counted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from sdjax_engine.errors import EngineError, PaintingFailed
from sdjax_engine.lane.decoding import Picture
from sdjax_engine.lane.verdicts import Verdicts, why_no_picture
from sdjax_engine.memory.devices import is_out_of_memory
from sdjax_engine.request import Image, Lane, Trouble
from sdjax_engine.scheduler.lane_queue import LaneQueue, Sums, moving_mean
from sdjax_engine.scheduler.next_run import RUNS_AHEAD, Demand, LaneShares, next_run_at, runs_ahead
from sdjax_engine.scheduler.pending import PendingRequest
from sdjax_engine.scheduler.previews import Previews
from sdjax_engine.scheduler.request_table import InFlightBatch, RequestTable
from sdjax_engine.scheduler.seats import Readiness
from sdjax_engine.scheduler.watchdog import Watchdog
from sdjax_engine.wording import first_line

logger = logging.getLogger(__name__)

MOST_ATTEMPTS = 2
OnFirstPass = Callable[[PendingRequest, Image], None]
MOVING = 1.0  # seconds that moving a model to the devices takes, about
COMPILING = 60.0  # seconds that compiling the programs of a lane takes, about


class Scheduler:
    """The requests of the engine and the work on them; used by one thread.

    `table` has the open lanes and the requests in them. `on_first_pass` gets each request that has finished
    the first pass of two, with its picture: the request is in no lane until it comes in again.
    """

    def __init__(
        self,
        queues: Mapping[Lane, LaneQueue],
        *,
        clock: Callable[[], float],
        watchdog: Watchdog,
        on_first_pass: OnFirstPass,
    ) -> None:
        self.watchdog = watchdog
        self.run_sums = Sums()
        self.table = RequestTable(queues)
        self._clock = clock
        self._on_first_pass = on_first_pass
        self._shares: LaneShares[Lane] = LaneShares()
        self._landed_at = clock()

    @property
    def next_turn_at(self) -> float | None:
        """When a turn has something to do; `AT_ONCE`: now; None: not before something comes in."""
        ready = self._ready_queues()
        if ready or self.table.in_flight:
            return next_run_at(self.table.in_flight, self._landed_at, ready)
        return None

    def turn(self) -> None:
        """Take the next step for one lane, and answer what is finished."""
        in_flight = self.table.in_flight
        while len(in_flight) > RUNS_AHEAD and (in_flight[0].run is None or in_flight[0].run.ready):
            self._land(in_flight[0])  # without waiting: the devices have finished it
            in_flight = self.table.in_flight
        ready = self._ready_queues()
        if next_run_at(self.table.in_flight, self._landed_at, ready) > self._clock():
            return
        queue = None
        if ready:
            shared = len(ready) > 1
            demands = {
                each.lane: Demand(
                    seats=readiness.seats, move_seconds=each.device.move_seconds if shared else 0.0
                )
                for each, readiness in ready.items()
            }
            queue = self.table.queues[self._shares.choose(demands)]
            self._launch(queue, wanted=ready[queue].seats, shared=shared)
        while len(self.table.in_flight) > runs_ahead(queue):
            self._land(self.table.in_flight[0])

    def land_everything(self) -> None:
        """Wait for everything that the devices have been given."""
        while self.table.in_flight:
            self._land(self.table.in_flight[0])

    def _ready_queues(self) -> dict[LaneQueue, Readiness]:
        found = ((queue, queue.seats.readiness()) for queue in self.table.queues.values())
        return {queue: readiness for queue, readiness in found if readiness is not None}

    def _launch(self, queue: LaneQueue, *, wanted: int, shared: bool) -> None:
        """Give the devices a lane's next run; if that fails, its batches in flight may fail too."""
        table = self.table
        behind = table.in_flight[-1] if table.in_flight else None
        batch = InFlightBatch(queue=queue, queued_at=self._clock(), wanted=wanted)
        if behind is not None and queue.on_several_devices:
            batch.uneven = behind.uneven or bool(behind.pictures)
        table.preparing = batch
        try:
            self._prepare_run(batch, shared=shared)
        except Exception as error:
            logger.exception("a run of %s could not be started", queue.lane)
            for earlier in table.batches_of(queue):
                if earlier in table.in_flight:  # landing a batch that broke removes the others
                    self._land(earlier)
            if table.preparing is batch:
                self._recover(queue, [batch], error)
        else:
            if behind is not None:
                behind.times.idle_after = batch.times.late
            table.launch(batch)
            batch.charged = queue.seconds_of(batch.evaluations)
            self._shares.charge(queue.lane, batch.charged, wanted)

    def _prepare_run(self, batch: InFlightBatch, *, shared: bool) -> None:
        """Seat requests, plan the run, and queue it with the decoding of the pictures that it finishes."""
        queue, device, table = batch.queue, batch.queue.device, self.table
        limits = queue.limits(shared=shared)
        seconds = queue.seconds_of(limits.long)
        placements = table.plan_run(batch, limits)
        for placement in placements:
            placement.request.tell(0)  # before any of its work is queued: that may crash the process
        began = self._clock()
        if self.watchdog.call(seconds, device.bring):
            batch.times.moved_at = began
        if queue.broken:
            self.watchdog.call(seconds, device.reset)
            queue.broken = False
        brought_at = self._clock()
        queued = [(each.run, each.estimates, *each.pictures.values()) for each in table.in_flight]
        earlier = [work for each in queued for work in each if work is not None]
        if placements:
            admitted = {placement.seat: placement.request.prepared for placement in placements}
            batch.times.late = self.watchdog.call(seconds, device.admit, admitted, earlier)
        spans = {span.seat: (span.start, span.stop) for span in batch.spans}
        batch.times.late = batch.times.late or device.has_done(earlier)
        began = self._clock()
        batch.run = self.watchdog.call(seconds, device.denoise, spans)
        batch.times.dispatching = self._clock() - began
        if queue.previews is not None:
            self._queue_estimates(batch, queue.previews)
        last = {span.seat: span.request for span in batch.spans if span.last}
        if last:
            decoded = self.watchdog.call(seconds, device.decode, list(last))
            batch.pictures |= {last[seat]: picture for seat, picture in decoded.items()}
        batch.times.queueing = self._clock() - brought_at

    def _land(self, batch: InFlightBatch) -> None:
        """Wait for a batch, tell its progress, answer with its pictures, and learn how long it took."""
        queue = batch.queue
        try:
            if batch.times.moved_at is not None:
                since = max(batch.times.moved_at, self._landed_at)
                self.watchdog.call(MOVING, queue.device.finish_move, since)
            if batch.run is not None:
                self.watchdog.call(queue.seconds_of(batch.evaluations), batch.run.wait)
        except Exception as error:
            logger.exception("a run of %s broke", queue.lane)
            self._recover(queue, self.table.batches_of(queue), error)
            return
        self.table.land(batch)
        landed_at = self._clock()
        seconds, self._landed_at = landed_at - max(batch.queued_at, self._landed_at), landed_at
        batch.share_out(seconds)
        if batch.evaluations and batch.run is not None:
            self._shares.charge(queue.lane, seconds - batch.charged, batch.wanted)
            queue.learn_run(seconds, batch.evaluations, batch.run.rows, idle_after=batch.times.idle_after)
            self.run_sums.add(batch.times.dispatching, seconds, late=batch.times.late)
            if queue.previews is not None:
                queue.previews.worked(seconds)
        if batch.times.queueing is not None:
            queue.slowest_queueing.add(batch.times.queueing)
        previews = self._fetch_previews(batch, landed_at) if batch.estimates is not None else {}
        for span in batch.spans:
            span.request.tell(span.stop, preview=previews.get(span.seat))
        if batch.pictures:
            self._deliver(batch)

    def _deliver(self, batch: InFlightBatch) -> None:
        """Answer with the pictures of a batch; requests whose picture cannot be read are started again."""
        queue, shortage = batch.queue, None
        for pending, picture in list(batch.pictures.items()):
            try:
                self._read(batch, pending, picture)
            except PaintingFailed as error:  # another attempt would fail in the same way
                self._fail(pending, error)
            except Exception as error:
                logger.exception("a picture of %s could not be read", queue.lane)
                if is_out_of_memory(error):
                    shortage = error  # other pictures may be there: they are read first
                else:
                    self._try_again(queue, [pending], error)
        if shortage is not None and not self._halve(queue, self.table.batches_of(queue)):
            self._try_again(queue, list(batch.pictures), shortage)

    def _read(self, batch: InFlightBatch, pending: PendingRequest, picture: Picture | None) -> None:
        """Read a picture and answer with it; a picture that is not finite is decoded again in float32."""
        assert picture is not None, "a batch is launched once the decoding of its pictures is queued"
        queue = batch.queue
        pixels = self._fetch(picture, pending, queue)
        if pixels is None:
            self._decode_again(queue, pending, picture)
            return
        verdicts = self.watchdog.call(queue.seconds_of(1), picture.fetch_verdicts)
        seconds = self._clock() - pending.seated_at
        if batch.run is not None:
            queue.seconds_per_image = moving_mean(queue.seconds_per_image, seconds)
        self._finish_pass(pending, pixels, verdicts, seconds)

    def _fetch(
        self, picture: Picture, pending: PendingRequest, queue: LaneQueue
    ) -> npt.NDArray[np.uint8] | None:
        """Wait for the pixels of a picture, and count the devices' time; None where it is not finite."""
        asked_at = self._clock()
        pixels = self.watchdog.call(queue.seconds_of(1), picture.fetch)
        if all(each.landed for each in self.table.in_flight):  # else the next run's time includes decoding
            pending.device_seconds += (self._clock() - asked_at) * queue.devices
        return pixels

    def _finish_pass(
        self, pending: PendingRequest, pixels: npt.NDArray[np.uint8], verdicts: Verdicts, seconds: float
    ) -> None:
        """Answer with a picture, or begin the second pass with it; `seconds` are those of this pass."""
        negative, prompt = pending.prepared.facts
        image = Image(
            request=pending.request,
            pixels=pixels,
            seconds=seconds + (pending.seconds_of_first_pass or 0.0),
            prompt=prompt,
            negative_prompt=negative,
            safety=verdicts.safety,
            classified=verdicts.classified,
            device_seconds=pending.device_seconds,
        )
        self.table.remove(pending)
        if pending.prepared.second is None:
            pending.give(image)
        else:
            self._on_first_pass(pending, image)

    def _queue_estimates(self, batch: InFlightBatch, previews: Previews) -> None:
        """Queue the estimates for the previews that are due after a run."""
        device = batch.queue.device
        if weights := previews.due(batch.spans, batch.queued_at, decoded=device.decodes_previews):
            with without_previews(batch.queue):
                batch.estimates = self.watchdog.call(batch.queue.seconds_of(1), device.estimate, weights)
                batch.previewed = list(weights)

    def _fetch_previews(self, batch: InFlightBatch, landed_at: float) -> Mapping[int, npt.NDArray[np.uint8]]:
        """Wait for the previews after a run that has landed, by seat."""
        queue = batch.queue
        if batch.estimates is not None and queue.previews is not None:
            with without_previews(queue):
                estimates = self.watchdog.call(queue.seconds_of(1), batch.estimates.fetch)
                queue.previews.took(self._clock() - landed_at)
                return queue.previews.pixels(estimates, batch.previewed)
        return {}

    def _decode_again(self, queue: LaneQueue, pending: PendingRequest, picture: Picture) -> None:
        latents = self.watchdog.call(queue.seconds_of(1), picture.fetch_latents)
        again = None
        if not pending.decoded_again:
            self.watchdog.call(queue.seconds_of(1), queue.device.bring)
            again = self.watchdog.call(queue.seconds_of(1), queue.device.decode_again, latents)
        if again is None:
            self._fail(pending, PaintingFailed(why_no_picture(latents)))
        else:
            pending.decoded_again = True
            self.table.decode_alone({pending: again}, queue, self._clock())

    def _recover(self, queue: LaneQueue, lost: Sequence[InFlightBatch], error: Exception) -> None:
        """Restart every request in a seat of a lane or in one of its `lost` batches."""
        if not (is_out_of_memory(error) and self._halve(queue, lost)):
            self._empty(queue, lost, error)

    def _halve(self, queue: LaneQueue, lost: Sequence[InFlightBatch]) -> bool:
        """Go on with less memory and restart requests as `_recover` does; False where that is impossible."""
        try:
            halved = self.watchdog.call(COMPILING, queue.device.halve)
        except Exception as error:
            logger.exception("%s cannot make do with fewer seats", queue.lane)
            self._empty(queue, self.table.batches_of(queue), error)
            return True
        if halved:
            requests = self.table.empty(queue, lost)
            queue.broken = False
            self.table.restart(queue, requests, alone=False)
            logger.warning("out of memory: %s goes on with %d seats", queue.lane, len(queue.seats))
            for pending in requests:
                pending.tell_trouble(Trouble.OUT_OF_MEMORY)
        return halved

    def _empty(self, queue: LaneQueue, lost: Sequence[InFlightBatch], error: Exception) -> None:
        """Empty the seats, which an error has broken, and restart their requests."""
        requests = self.table.empty(queue, lost)
        queue.broken = True
        self._try_again(queue, requests, error)

    def _try_again(self, queue: LaneQueue, requests: Sequence[PendingRequest], error: Exception) -> None:
        """Restart requests before all others and alone; a second error ends a request."""
        again = {pending: None for pending in requests if pending.failures + 1 < MOST_ATTEMPTS}
        for pending in again:
            pending.failures += 1
        self.table.restart(queue, list(again), alone=True)
        for pending in requests:
            if pending in again:
                pending.tell_trouble(Trouble.FAILED)
            else:
                self._fail(pending, PaintingFailed(f"The devices failed: {first_line(error)}"))

    def _fail(self, pending: PendingRequest, error: EngineError) -> None:
        self.table.remove(pending)
        pending.fail(error)


@contextmanager
def without_previews(queue: LaneQueue) -> Iterator[None]:
    """Stop a lane's previews after an error; its pictures are not affected."""
    try:
        yield
    except Exception:
        logger.exception("%s makes no more previews", queue.lane)
        queue.previews = None
