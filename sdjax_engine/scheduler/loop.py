"""The scheduler: gives requests their seats, keeps the devices busy, and answers; it has no thread itself.

One turn serves one lane:

    take seats, plan ─► queue a run ─► queue the decoding of the pictures that it finishes
    ─► only then wait for the run before this one, tell its progress, answer with its pictures

So the devices always have the next run while the host waits. Each request that is not answered is in one
place that its state names:

    WAITING             in the queue of its lane
    SEATED              in a seat of its lane
    IN_FLIGHT, DECODED  among the pictures of one batch

With free seats the next run is queued only just before the run in flight ends, as estimated from the latest
runs: a new request takes its seat behind all the runs that the devices have. While requests wait, no seat is
free earlier anyway: the next run is queued at once.

An error of the devices may show when a run is queued, when its end is waited for, or when a picture is read.
Every request that the error can have touched is started again once, and alone, so that an image that breaks
the devices breaks no other image. A request that is touched a second time is answered with the error. After
a shortage of memory the lane goes on with less memory, if it can: its requests are started again together,
and this is not counted.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from sdjax_engine.errors import EngineError, PaintingFailed, first_line
from sdjax_engine.lane.device_lane import Moves, Picture, Verdicts, why_no_picture
from sdjax_engine.lane.programs import Estimates
from sdjax_engine.lane.runs import Run
from sdjax_engine.memory.devices import is_out_of_memory
from sdjax_engine.request import Image, Lane, Trouble
from sdjax_engine.scheduler.lane_queue import (
    Demand,
    LaneQueue,
    LaneShares,
    Previews,
    RunLimits,
    Span,
    Sums,
    moving_mean,
    waiting_for,
)
from sdjax_engine.scheduler.pending import PendingRequest, State

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")
OnFirstPass = Callable[[PendingRequest, Image], None]
RUNS_AHEAD = 1
"""How many runs are queued on the devices while the host waits for an earlier run."""
RUNS_AHEAD_OF_MANY = 2
"""The same with so many seats that a request finishes in nearly every run, and the devices decode."""
RUNS_AHEAD_WHILE_WAITING = 2
"""The same while requests wait, on one device."""
RUNS_AHEAD_WHILE_WAITING_ON_SEVERAL = 3
"""The same on several devices, of which one may be late several times in a row."""
MANY_SEATS = 128
MARGIN = 2.0
"""The next run is queued this many times the seconds of queueing before the run in flight ends."""
AT_ONCE = float("-inf")
PATIENCE = 20.0
"""How many times the usual duration of the work is waited for, besides `stuck_after`."""
MOST_ATTEMPTS = 2
MOVING = 1.0  # seconds that moving a model to the devices takes, about
COMPILING = 60.0  # seconds that compiling the programs of a lane takes, about


@dataclass(kw_only=True)
class BatchTimes:
    """How long the host took to queue a batch, and whether the devices waited for it.

    `moves` are parameters that began to move to the devices at `moved_at`. `queueing` is how many seconds the
    host took for all of the batch, None with a move; `dispatching` those for its evaluations alone. It is
    `late` where the devices had finished all earlier work before its admission or its evaluations were
    queued. `idle_after` says that the devices were idle after this batch, because the next one was late.
    """

    moves: Moves = ()
    moved_at: float = 0.0
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

    def plan_run(self, batch: InFlightBatch, limits: RunLimits) -> dict[int, PendingRequest]:
        """Give free seats to the requests that have waited longest, and decide what the run of a batch does.

        Requests that it finishes go from their seats to the batch. Returns those that have just got a seat,
        by their seats.
        """
        seats, now = batch.queue.seats, batch.queued_at
        newcomers = seats.take_seats(batch.queue.most_newcomers(now))
        batch.spans = seats.plan_run(limits)
        batch.evaluations = max((span.stop - span.start for span in batch.spans), default=0)
        for pending in newcomers.values():
            pending.seated_at = now
            pending.move(State.SEATED)
        for span in batch.spans:
            if span.last:
                batch.pictures[span.request] = None
                span.request.move(State.IN_FLIGHT)
        return newcomers

    def land(self, batch: InFlightBatch) -> None:
        """Note that the devices have done a batch's work; it is forgotten once its last picture has left."""
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


def runs_ahead(queue: LaneQueue | None) -> int:
    """Return how many runs stay queued while the host waits for an earlier one; the last is this lane's."""
    if queue is None:
        return 0
    if queue.seats.line:
        several = queue.on_several_devices
        return RUNS_AHEAD_WHILE_WAITING_ON_SEVERAL if several else RUNS_AHEAD_WHILE_WAITING
    return RUNS_AHEAD_OF_MANY if len(queue.seats) >= MANY_SEATS else RUNS_AHEAD


def next_run_at(in_flight: Sequence[InFlightBatch], landed_at: float, ready: Sequence[LaneQueue]) -> float:
    """Return when to queue the next run: at once, or shortly before the only batch in flight ends.

    The batch before it landed at `landed_at`; `ready` are the queues whose lanes could run now. The next run
    is delayed only where no other lane could use the devices meanwhile.
    """
    if len(in_flight) != 1:
        return AT_ONCE
    [batch] = in_flight
    if batch.run is None or batch.uneven or ready != [batch.queue]:
        return AT_ONCE
    seconds = batch.queue.quickest_evaluation(batch.run.rows)
    if seconds is None or not batch.queue.seats.open_to_newcomers:
        return AT_ONCE
    ends = max(batch.queued_at, landed_at) + batch.evaluations * seconds
    return ends - MARGIN * (batch.queue.slowest_queueing.value or 0.0)


class Watchdog:
    """Watches the calls of the devices: any thread uses `call`, one reads `is_overdue`.

    `stuck_after` is in seconds; 0 means that no call takes too long.
    """

    def __init__(self, *, clock: Callable[[], float], stuck_after: float) -> None:
        self._clock = clock
        self._stuck_after = stuck_after
        self._until: dict[object, float] = {}

    def call(self, expected: float, function: Callable[..., Answer], *arguments: object) -> Answer:
        """Call the devices, which usually takes `expected` seconds; returns the result, raises the error."""
        under_way = object()
        self._until[under_way] = self._clock() + self._stuck_after + PATIENCE * expected
        try:
            return function(*arguments)
        finally:
            del self._until[under_way]

    @property
    def is_overdue(self) -> bool:
        """Whether a call under way takes too long."""
        now = self._clock()
        return bool(self._stuck_after) and any(until <= now for until in tuple(self._until.values()))


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
                    seats=each.seats.wanted, move_seconds=each.device.move_seconds if shared else 0.0
                )
                for each in ready
            }
            queue = self.table.queues[self._shares.choose(demands)]
            self._launch(queue, wanted=queue.seats.wanted, shared=shared)
        while len(self.table.in_flight) > runs_ahead(queue):
            self._land(self.table.in_flight[0])

    def land_everything(self) -> None:
        """Wait for everything that the devices have been given."""
        while self.table.in_flight:
            self._land(self.table.in_flight[0])

    def _ready_queues(self) -> list[LaneQueue]:
        return [queue for queue in self.table.queues.values() if queue.seats.wanted]

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
            table.preparing = None
            table.in_flight.append(batch)
            batch.charged = queue.seconds_of(batch.evaluations)
            self._shares.charge(queue.lane, batch.charged, wanted)

    def _prepare_run(self, batch: InFlightBatch, *, shared: bool) -> None:
        """Seat requests, plan the run, and queue it with the decoding of the pictures that it finishes."""
        queue, device, table = batch.queue, batch.queue.device, self.table
        limits = queue.limits(shared=shared)
        seconds = queue.seconds_of(limits.long)
        newcomers = table.plan_run(batch, limits)
        for pending in newcomers.values():
            pending.tell(0)  # before any of its work is queued: that may crash the process
        if queue.broken:
            self.watchdog.call(seconds, device.reset)
            queue.broken = False
        device.take_moves()  # at the start, or for work that failed: this run does not wait for them
        batch.times.moved_at = self._clock()
        queued = [(each.run, each.estimates, *each.pictures.values()) for each in table.in_flight]
        earlier = [work for each in queued for work in each if work is not None]
        if newcomers:
            admitted = {seat: pending.prepared for seat, pending in newcomers.items()}
            waiting = waiting_for(queue.lane.model, table.queues.values())
            batch.times.late = self.watchdog.call(seconds, device.admit, admitted, earlier, waiting)
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
        batch.times.moves = device.take_moves()
        if not batch.times.moves:
            batch.times.queueing = self._clock() - batch.times.moved_at
        elif newcomers:
            queue.admitted_at = batch.times.moved_at

    def _land(self, batch: InFlightBatch) -> None:
        """Wait for a batch, tell its progress, answer with its pictures, and learn how long it took."""
        queue = batch.queue
        try:
            if batch.times.moves:
                since = max(batch.times.moved_at, self._landed_at)
                self.watchdog.call(MOVING, queue.device.finish_moves, batch.times.moves, since)
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
        previews = self._fetch_previews(batch, landed_at)
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
        queue, asked_at = batch.queue, self._clock()
        pixels = self.watchdog.call(queue.seconds_of(1), picture.fetch)
        if all(each.landed for each in self.table.in_flight):  # else the next run's time includes decoding
            pending.device_seconds += (self._clock() - asked_at) * queue.devices
        if pixels is None:
            self._decode_again(queue, pending, picture)
            return
        verdicts = self.watchdog.call(queue.seconds_of(1), picture.fetch_verdicts)
        seconds = self._clock() - pending.seated_at
        if batch.run is not None:
            queue.seconds_per_image = moving_mean(queue.seconds_per_image, seconds)
        self._finish_pass(pending, pixels, verdicts, seconds)

    def _finish_pass(
        self, pending: PendingRequest, pixels: npt.NDArray[np.uint8], verdicts: Verdicts, seconds: float
    ) -> None:
        """Answer with a picture, or begin the second pass with it; `seconds` are those of this pass."""
        (negative, prompt), (safety, classified) = pending.prepared.facts, verdicts
        image = Image(
            request=pending.request,
            pixels=pixels,
            seconds=seconds + (pending.seconds_of_first_pass or 0.0),
            prompt=prompt,
            negative_prompt=negative,
            safety=safety,
            classified=classified,
            device_seconds=pending.device_seconds,
            int8=pending.prepared.int8,
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
