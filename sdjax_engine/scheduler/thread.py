"""The engine's thread, on which the scheduler works, and a second thread that watches it.

A call of devices that do not answer cannot be interrupted. The engine is then closed for good, and every
request is answered with an error: only a new process can help.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, InvalidStateError, wait
from contextlib import suppress
from typing import Any, TypeVar

from sdjax_engine.daemon_thread import DaemonThread
from sdjax_engine.errors import EngineClosed, PaintingFailed
from sdjax_engine.memory.owner import Owner
from sdjax_engine.request import Image, Lane
from sdjax_engine.scheduler.intake import Intake
from sdjax_engine.scheduler.lane_queue import LaneQueue, Sums
from sdjax_engine.scheduler.loop import Scheduler
from sdjax_engine.scheduler.pending import PendingRequest
from sdjax_engine.scheduler.watchdog import Watchdog
from sdjax_engine.wording import first_line

Result = TypeVar("Result")
logger = logging.getLogger(__name__)

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
        if self.is_current:
            return chore()
        future = self.intake.do(chore)
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
