"""The door to the engine's thread: requests and lanes come in from any thread, and wait for the loop here.

A request whose lane is not open yet waits at the door. Nothing that a caller has given to be called back is
called while the door is locked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from sdjax_engine.model.prepare import Prepared
from sdjax_engine.request import EngineClosed, EngineError, Image, Lane, OnProgress
from sdjax_engine.scheduler.lane_queue import LaneQueue
from sdjax_engine.scheduler.loop import Scheduler
from sdjax_engine.scheduler.pending import PendingRequest

CLOSING = "The engine is closing and takes no more requests."

Wanted = tuple[Lane, bool]
"""A lane, and whether it must be able to start from a picture."""


class Intake:
    """What has come in and the loop has not seen yet; every method may be called from any thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._unanswered: dict[PendingRequest, None] = {}
        self._arrivals: list[PendingRequest] = []
        self._cancelled: list[PendingRequest] = []
        self._unserved: dict[Wanted, dict[PendingRequest, None]] = {}  # whose lane is not open yet
        self._opened: list[LaneQueue] = []
        self._failed: dict[Wanted, EngineError] = {}
        self._look_again = False
        self._closing = False
        self._dropping = False

    @property
    def has_requests(self) -> bool:
        """Whether anybody waits for an answer."""
        return bool(self._unanswered)

    @property
    def has_unserved(self) -> bool:
        """Whether anybody waits for a lane that is not open, or for one to start from pictures."""
        return bool(self._unserved)

    def submit(self, prepared: Prepared, on_progress: OnProgress | None) -> Future[Image]:
        """Let a request in; raises EngineClosed."""
        pending = PendingRequest(prepared=prepared, on_progress=on_progress)
        with self._changed:
            if self._closing:
                raise EngineClosed(CLOSING)
            self._arrivals.append(pending)
            self._unanswered[pending] = None
            self._changed.notify_all()
        pending.future.add_done_callback(partial(self._forget, pending))
        return pending.future

    def open_queue(self, queue: LaneQueue) -> None:
        """Serve one more lane, and whoever waits for it."""
        with self._changed:
            self._opened.append(queue)
            self._changed.notify_all()

    def look_again(self) -> None:
        """See whether a desk can now do what somebody waits for: start from pictures."""
        with self._changed:
            self._look_again = True
            self._changed.notify_all()

    def fail_lane(self, lane: Lane, error: EngineError, *, pictures_only: bool = False) -> None:
        """Answer whoever waits for a lane that is not open, and whoever will, with `error`.

        With `pictures_only`, those who start from a picture in a lane that can only paint from noise.
        """
        with self._changed:
            self._failed[lane, pictures_only] = error
            self._changed.notify_all()

    def has_failed(self, lane: Lane) -> bool:
        """Whether a lane could not be opened."""
        return (lane, False) in self._failed

    def queues(self, scheduler: Scheduler) -> dict[Lane, LaneQueue]:
        """The desks of a loop, with those that it has not seen yet."""
        with self._changed:
            return {**scheduler.queues, **{queue.lane: queue for queue in self._opened}}

    def close(self, *, drop: bool) -> None:
        """Let nobody in any more; with `drop`, cancel every request that is here."""
        with self._changed:
            self._closing = True
            self._dropping = self._dropping or drop
            self._changed.notify_all()

    def shut(self) -> list[PendingRequest]:
        """Let nobody in any more, and return every request that is not answered."""
        self.close(drop=False)
        with self._changed:
            return list(self._unanswered)

    def wait_for_work(self, scheduler: Scheduler) -> bool:
        """Wait until the loop has something to do, and let it have what came; False: it may end."""
        while True:
            with self._changed:
                while not self._something_to_do(scheduler):
                    self._changed.wait(self._sleep(scheduler))
                answers = self._take_in(scheduler)
                goes_on = scheduler.occupied or bool(self._unserved) or not self._closing
            if not answers:
                return goes_on
            for answer in answers:
                answer()

    def _something_to_do(self, scheduler: Scheduler) -> bool:
        if self._arrivals or self._cancelled or self._opened or self._look_again or self._dropping:
            return True
        if scheduler.busy or any(self._failure(wanted) for wanted in self._unserved):
            return True
        return self._closing and not (scheduler.occupied or self._unserved)

    def _sleep(self, scheduler: Scheduler) -> float | None:
        wake_at = scheduler.wake_at
        return None if wake_at is None else max(0.0, wake_at - self._clock())

    def _take_in(self, scheduler: Scheduler) -> list[Callable[[], object]]:
        """Give the loop what has come, and return the calls that answer who will not be painted."""
        for queue in self._opened:
            scheduler.open(queue)
        for pending in self._cancelled:
            self._drop(scheduler, pending)
        settled = [wanted for wanted in self._unserved if self._is_settled(scheduler, wanted)]
        coming = [pending for wanted in settled for pending in self._unserved.pop(wanted)] + self._arrivals
        self._opened, self._cancelled, self._arrivals, self._look_again = [], [], [], False
        answers: list[Callable[[], object]] = []
        for pending in coming:
            wanted = wanted_by(pending)
            if pending.answered:
                continue
            if can_paint(scheduler, wanted):
                scheduler.join(pending)
            elif (error := self._failure(wanted)) is not None:
                answers.append(partial(pending.fail, error))
            else:
                self._unserved.setdefault(wanted, {})[pending] = None
        if self._dropping:
            answers += [pending.future.cancel for pending in self._unanswered if not pending.answered]
        return answers

    def _is_settled(self, scheduler: Scheduler, wanted: Wanted) -> bool:
        """Whether it is known by now if what is wanted can be painted."""
        return can_paint(scheduler, wanted) or self._failure(wanted) is not None

    def _drop(self, scheduler: Scheduler, pending: PendingRequest) -> None:
        wanted = wanted_by(pending)
        waiting = self._unserved.get(wanted, {})
        waiting.pop(pending, None)
        if not waiting:
            self._unserved.pop(wanted, None)
        scheduler.leave(pending)

    def _failure(self, wanted: Wanted) -> EngineError | None:
        """Why nobody can ever be painted who wants this; None where that can be, as far as is known."""
        lane, from_picture = wanted
        error = self._failed.get((lane, False))
        return self._failed.get((lane, True)) if error is None and from_picture else error

    def _forget(self, pending: PendingRequest, future: Future[Image]) -> None:
        with self._changed:
            self._unanswered.pop(pending, None)
            if future.cancelled():
                self._cancelled.append(pending)
                self._changed.notify_all()


def wanted_by(pending: PendingRequest) -> Wanted:
    """Return what a request needs to be painted."""
    return pending.prepared.request.lane, pending.prepared.picture is not None


def can_paint(scheduler: Scheduler, wanted: Wanted) -> bool:
    """Whether the loop can paint now what is wanted."""
    lane, from_picture = wanted
    queue = scheduler.queues.get(lane)
    return queue is not None and (queue.device.starts_from_pictures or not from_picture)
