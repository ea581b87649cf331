"""The engine's thread, on which the scheduler works, and a second thread that watches it.

Requests, lanes and chores come in from any thread, and wait until the scheduler's thread takes them in:

    submit ──► arrivals ──take in──► scheduler
                 └─ lane not open ─► unserved ──lane opened──► scheduler
                                         └──── lane failed ──► answered with the error
    do ──────► chores ───────────────► done by the scheduler's thread

No callback of a caller runs while the lock of the intake is held.

A call of devices that do not answer cannot be interrupted. The engine is then closed for good, and every
request is answered with an error: only a new process can help.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, InvalidStateError, wait
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from sdjax_engine.compiling.per_device import DaemonThread, fulfil
from sdjax_engine.errors import EngineClosed, EngineError, PaintingFailed, first_line
from sdjax_engine.memory.residency import Owner
from sdjax_engine.request import Image, Lane
from sdjax_engine.scheduler.lane_queue import LaneQueue, Sums
from sdjax_engine.scheduler.loop import Scheduler, Watchdog
from sdjax_engine.scheduler.pending import PendingRequest

Result = TypeVar("Result")
logger = logging.getLogger(__name__)


CHORE_SECONDS = 1.0  # that a chore takes, about
CLOSING = "The engine is closing and takes no more requests."

Wanted = tuple[Lane, bool]
"""A lane, and whether it must be able to start from a picture."""


class Intake:
    """Requests and lanes that the scheduler has not seen yet; every method may be called from any thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._chores: list[Callable[[], None]] = []
        self._unanswered: dict[PendingRequest, None] = {}
        self._arrivals: list[PendingRequest] = []
        self._second_passes: list[PendingRequest] = []
        self._cancelled: list[PendingRequest] = []
        self._unserved: dict[Wanted, dict[PendingRequest, None]] = {}
        self._opened: list[LaneQueue] = []
        self._failed: dict[Wanted, EngineError] = {}
        self._leaving: set[Lane] = set()
        self._look_again = False
        self._closing = False
        self._dropping = False

    @property
    def has_requests(self) -> bool:
        """Whether a request is not answered yet."""
        return bool(self._unanswered)

    @property
    def awaited(self) -> frozenset[Wanted]:
        """What requests wait for: lanes to open, or to start from pictures."""
        with self._changed:
            return frozenset(self._unserved)

    def submit(self, pending: PendingRequest) -> Future[Image]:
        """Accept a request and return its future; raises EngineClosed."""
        with self._changed:
            self.check_open()
            self._arrivals.append(pending)
            self._unanswered[pending] = None
            self._changed.notify_all()
        pending.future.add_done_callback(partial(self._forget, pending))
        return pending.future

    def do(self, chore: Callable[[], Result]) -> Future[Result]:
        """Have the scheduler's thread do a chore between two turns; after its end no chore is done."""
        future: Future[Result] = Future()
        with self._changed:
            self._chores.append(partial(fulfil, future, chore))
            self._changed.notify_all()
        return future

    def check_open(self) -> None:
        """Raise EngineClosed if requests are no longer accepted."""
        if self._closing:
            raise EngineClosed(CLOSING)

    def come_back(self, pending: PendingRequest) -> None:
        """Take in a request again, for its second pass."""
        with self._changed:
            if not pending.answered:
                self._second_passes.append(pending)
                self._changed.notify_all()

    def open_queue(self, queue: LaneQueue) -> None:
        """Serve one more lane, and the requests that wait for it; an earlier failure to open it is void."""
        with self._changed:
            self._failed.pop((queue.lane, False), None)
            self._opened.append(queue)
            self._changed.notify_all()

    def look_again(self) -> None:
        """Check again whether an open lane can start from pictures now."""
        with self._changed:
            self._look_again = True
            self._changed.notify_all()

    def fail_lane(self, lane: Lane, error: EngineError, *, pictures_only: bool = False) -> None:
        """Result with `error`, now and later, every request for a lane that cannot be opened.

        With `pictures_only`, only requests that start from a picture: the lane itself is open.
        """
        with self._changed:
            self._failed[lane, pictures_only] = error
            self._changed.notify_all()

    def wait_for_answers(self, lanes: Collection[Lane]) -> None:
        """Return once every request for these lanes is answered. Raises EngineClosed.

        The caller submits no more requests for them meanwhile, and still opens the lanes that are not open.
        """

        def are_answered() -> bool:
            return not any(lane in lanes for pending in self._unanswered for lane in pending.lanes)

        with self._changed:
            self._changed.wait_for(lambda: self._closing or are_answered())
            if self._closing:
                raise EngineClosed(CLOSING)

    def close_lanes(self, lanes: Collection[Lane]) -> None:
        """Return once every request for these lanes is answered and none of them is open.

        The caller submits no more requests for them meanwhile. Raises EngineClosed.
        """
        with self._changed:
            self._leaving.update(lanes)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._closing or self._leaving.isdisjoint(lanes))
            if self._closing:
                raise EngineClosed(CLOSING)

    def has_failed(self, lane: Lane) -> bool:
        """Return whether a lane could not be opened."""
        return (lane, False) in self._failed

    def queues(self, scheduler: Scheduler) -> dict[Lane, LaneQueue]:
        """Return the queues of a scheduler, with those that it has not taken in yet."""
        with self._changed:
            return {**scheduler.table.queues, **{queue.lane: queue for queue in self._opened}}

    def close(self, *, drop: bool) -> None:
        """Accept no more requests; with `drop`, cancel every request that is here."""
        with self._changed:
            self._closing = True
            self._dropping = self._dropping or drop
            self._changed.notify_all()

    def shut(self) -> list[PendingRequest]:
        """Accept no more requests, and return every request that is not answered."""
        self.close(drop=False)
        with self._changed:
            return list(self._unanswered)

    def wait_for_work(self, scheduler: Scheduler) -> bool:
        """Wait until the scheduler has something to do, and give it what came; False: its thread may end."""
        while True:
            with self._changed:
                while not self._something_to_do(scheduler):
                    wake_at = scheduler.next_turn_at
                    self._changed.wait(None if wake_at is None else max(0.0, wake_at - self._clock()))
                answers = self._take_in(scheduler)
                goes_on = bool(self._unanswered) or not self._closing
            if not answers:
                return goes_on
            for answer in answers:
                answer()

    def _something_to_do(self, scheduler: Scheduler) -> bool:
        if self._arrivals or self._second_passes or self._cancelled or self._opened:
            return True
        if self._chores or self._look_again or self._dropping:
            return True
        if self._leaving and self._may_leave(scheduler):
            return True
        turn_at = scheduler.next_turn_at
        if turn_at is not None and turn_at <= self._clock():
            return True
        if any(self._failure(wanted) for wanted in self._unserved):
            return True
        return self._closing and not self._unanswered

    def _take_in(self, scheduler: Scheduler) -> list[Callable[[], object]]:
        """Give the scheduler the arrivals, and return the calls that answer or cancel requests."""
        for queue in self._opened:
            scheduler.table.queues[queue.lane] = queue
        arrivals, cancelled = self._arrivals, self._cancelled
        arrivals += reversed(self._second_passes)  # each goes before all others: the oldest is the last
        self._arrivals, self._second_passes, self._cancelled = [], [], []
        self._opened, self._look_again = [], False
        settled = [
            wanted
            for wanted in self._unserved
            if can_paint(scheduler, wanted) or self._failure(wanted) is not None
        ]
        chores, self._chores = self._chores, []  # first: the garbage collector may add one at any moment
        answers: list[Callable[[], object]] = [
            partial(scheduler.watchdog.call, CHORE_SECONDS, chore) for chore in chores
        ]
        served = [each for wanted in settled for each in self._unserved.pop(wanted)]
        for pending in [*served, *arrivals]:
            wanted = wanted_by(pending)
            if can_paint(scheduler, wanted):
                scheduler.table.join(pending)
            elif (error := self._failure(wanted)) is not None:
                answers.append(partial(pending.fail, error))
            else:
                self._unserved.setdefault(wanted, {})[pending] = None
        for pending in cancelled:
            self._drop(scheduler, pending)
        if self._leaving and self._may_leave(scheduler):  # after the drops, which look in the lanes' seats
            self._close_leaving(scheduler)
        if self._dropping:
            answers += [pending.future.cancel for pending in self._unanswered if not pending.answered]
        return answers

    def _may_leave(self, scheduler: Scheduler) -> bool:
        """Return whether no request and no work of the devices needs the lanes that leave."""
        wanted = (lane for pending in self._unanswered for lane in pending.lanes)
        return self._leaving.isdisjoint(wanted) and self._leaving.isdisjoint(scheduler.table.busy_lanes)

    def _close_leaving(self, scheduler: Scheduler) -> None:
        for lane in self._leaving:
            scheduler.table.close(lane)
            for pictures_only in (False, True):
                self._failed.pop((lane, pictures_only), None)
        self._leaving.clear()
        self._changed.notify_all()

    def _drop(self, scheduler: Scheduler, pending: PendingRequest) -> None:
        """Forget a cancelled request, in the scheduler or among the unserved."""
        wanted = wanted_by(pending)
        waiting = self._unserved.get(wanted, {})
        waiting.pop(pending, None)
        if not waiting:
            self._unserved.pop(wanted, None)
        scheduler.table.remove(pending)

    def _failure(self, wanted: Wanted) -> EngineError | None:
        """Return why requests that need this can never be painted; None: no reason is known."""
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
    """Return the lane that a request needs, and whether it starts from a picture."""
    return pending.lane, pending.prepared.picture is not None


def can_paint(scheduler: Scheduler, wanted: Wanted) -> bool:
    """Return whether the scheduler has that lane, able to start from pictures where that is wanted."""
    lane, from_picture = wanted
    queue = scheduler.table.queues.get(lane)
    return queue is not None and (not from_picture or queue.device.starts_from_pictures)


STOPPED = "The engine has stopped."
HANGING = "The devices answer nothing any more."
LOOKS = 10  # the least number of checks by the watching thread within `stuck_after`
MOST_SECONDS_BETWEEN_LOOKS = 5.0


class EngineThread(Owner):
    """Runs the scheduler; every method may be called from any thread. Requests and lanes go to `intake`.

    Devices are stuck after `stuck_after` seconds of silence beyond what work usually takes (0: never).
    """

    def __init__(
        self,
        queues: Mapping[Lane, LaneQueue],
        *,
        clock: Callable[[], float],
        stuck_after: float = 0.0,
    ) -> None:
        self._stuck_after = stuck_after
        self.intake = Intake(clock)
        self.is_hanging = False
        self._ended: Future[str] = Future()  # why
        self._enlarging = DaemonThread("sdjax-enlarge")
        self._fetching = DaemonThread("sdjax-fetch")
        self._scheduler = Scheduler(
            queues,
            clock=clock,
            watchdog=Watchdog(clock=clock, stuck_after=stuck_after),
            on_first_pass=self._on_first_pass,
        )
        self._thread = threading.Thread(target=self._work, name="sdjax-engine", daemon=True)
        self._guarding = threading.Thread(target=self._guard, name="sdjax-engine watch", daemon=True)

    @property
    def queues(self) -> Mapping[Lane, LaneQueue]:
        """The queues of the open lanes."""
        return self.intake.queues(self._scheduler)

    @property
    def run_sums(self) -> Sums:
        """How many runs there were, and how long they took to dispatch and to finish."""
        return self._scheduler.run_sums

    @property
    def is_current(self) -> bool:
        """Whether the caller is the thread that works, as callbacks are."""
        return threading.current_thread() is self._thread

    def submit(self, chore: Callable[[], object]) -> None:
        """Do a chore on the engine's thread after those before it, between two turns; never after its end."""
        self.intake.do(chore)

    def do(self, chore: Callable[[], Result]) -> Result:
        """Return what a chore returns, done as by `submit`; at once where the caller is that thread.

        Raises EngineClosed once the thread has ended or hangs.
        """
        return chore() if self.is_current else self._result_of(self.intake.do(chore))

    def wait_for(self, fetch: Callable[[], Result]) -> Result:
        """Return what `fetch` returns, which waits for the devices' work, watched; raises as `do` does."""
        call = partial(self._scheduler.watchdog.call, CHORE_SECONDS, fetch)
        fetched: Future[Result] = self._fetching.submit(call)
        return self._result_of(fetched)

    def _result_of(self, future: Future[Result]) -> Result:
        """Wait for a result or for the end of the thread, after which none comes."""
        either: list[Future[Any]] = [future, self._ended]
        wait(either, return_when=FIRST_COMPLETED)
        if not future.done():  # the thread has ended, or hangs
            raise EngineClosed(self._ended.result())
        return future.result()

    def start(self) -> None:
        """Start both threads."""
        self._thread.start()
        if self._stuck_after:
            self._guarding.start()

    def close(self, *, drain: bool) -> None:
        """Accept no more requests, and return when every request is answered and the threads have ended.

        A thread that runs while the interpreter is torn down could free the last arrays, which aborts the
        process. Only a thread that hangs is not waited for.
        """
        self.intake.close(drop=not drain)
        if threading.current_thread() in (self._thread, self._guarding) or self._thread.ident is None:
            return
        self._ended.result()
        self._enlarging.close()
        if self._stuck_after:
            self._guarding.join()
        if not self.is_hanging:
            self._fetching.close()
            self._thread.join()

    def _work(self) -> None:
        try:
            while self.intake.wait_for_work(self._scheduler):
                self._scheduler.turn()
            self._scheduler.land_everything()  # a process that ends while the devices work could abort
        finally:
            self._end(STOPPED)

    def _on_first_pass(self, pending: PendingRequest, image: Image) -> None:
        """Enlarge the picture of a first pass beside the devices' work; then the request comes in again."""
        self._enlarging.submit(self._begin_second_pass, pending, image)

    def _begin_second_pass(self, pending: PendingRequest, image: Image) -> None:
        try:
            pending.begin_second_pass(image)
        except Exception as error:
            logger.exception("a picture could not be enlarged")
            pending.fail(PaintingFailed(f"The picture could not be enlarged: {first_line(error)}"))
        else:
            self.intake.come_back(pending)

    def _end(self, reason: str) -> None:
        """Accept no more requests, and answer those that are left, whatever their callbacks raise."""
        for pending in self.intake.shut():
            try:
                pending.fail(EngineClosed(reason))
            except BaseException:
                logger.exception("a callback failed")
        with suppress(InvalidStateError):  # the thread that hung has come back
            self._ended.set_result(reason)

    def _guard(self) -> None:
        """Check again and again whether the devices keep the thread waiting for too long."""
        seconds = min(MOST_SECONDS_BETWEEN_LOOKS, self._stuck_after / LOOKS)
        while not wait([self._ended], seconds).done:
            if self._scheduler.watchdog.is_overdue:
                logger.error("the devices do not answer: the engine is given up")
                self.is_hanging = True
                self._end(HANGING)
