"""The engine's thread, on which the loop works, and a second thread that watches it.

Devices that answer nothing any more cannot be interrupted, so the thread that waits for them is left behind
and another begins with the same requests and empty seats. If that one gets no answer either, or cannot be
started, the engine is given up: everybody is told, and only a new process can help.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from sdjax_engine.model.prepare import Prepared
from sdjax_engine.request import EngineClosed, EngineError, Image, Lane, OnProgress
from sdjax_engine.scheduler.intake import Intake
from sdjax_engine.scheduler.lane_queue import LaneQueue
from sdjax_engine.scheduler.loop import Scheduler
from sdjax_engine.scheduler.watchdog import Abandoned, Watchdog

logger = logging.getLogger(__name__)

STOPPED = "The engine has stopped."
HANGING = "The devices answer nothing any more, even after a restart."
LOOKS = 10  # how often the watcher looks within `stuck_after`, at least
MOST_SECONDS_BETWEEN_LOOKS = 5.0


class EngineThread:
    """Runs the loop; every method may be called from any thread.

    `stuck_after` is how many seconds of silence, beyond what work usually takes, make devices stuck (0:
    none). Lanes may be added while it runs.
    """

    def __init__(
        self,
        queues: Mapping[Lane, LaneQueue],
        *,
        clock: Callable[[], float],
        stuck_after: float = 0.0,
    ) -> None:
        self._clock = clock
        self._stuck_after = stuck_after
        self._intake = Intake(clock)
        self._restarts = 0
        self._hanging = False
        self._ended = threading.Event()
        self._scheduler = Scheduler(queues, clock=clock, watchdog=self._new_watchdog())
        self._thread = self._thread_for(self._scheduler)
        self._guarding = threading.Thread(target=self._guard, name="sdjax-engine watch", daemon=True)

    @property
    def queues(self) -> Mapping[Lane, LaneQueue]:
        """The desks that are open."""
        return self._intake.queues(self._scheduler)

    @property
    def restarts(self) -> int:
        """How often a stuck thread was left behind for a new one."""
        return self._restarts

    @property
    def has_requests(self) -> bool:
        """Whether anybody waits for an answer."""
        return self._intake.has_requests

    @property
    def has_unserved(self) -> bool:
        """Whether anybody waits for a lane that is not open, or for one to start from pictures."""
        return self._intake.has_unserved

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()
        if self._stuck_after:
            self._guarding.start()

    def open_queue(self, queue: LaneQueue) -> None:
        """Serve one more lane, and whoever waits for it."""
        self._intake.open_queue(queue)

    def look_again(self) -> None:
        """See whether a desk can now do what somebody waits for: start from pictures."""
        self._intake.look_again()

    def fail_lane(self, lane: Lane, error: EngineError, *, pictures_only: bool = False) -> None:
        """Answer whoever waits for a lane that is not open, and whoever will, with `error`.

        With `pictures_only`, those who start from a picture in a lane that can only paint from noise.
        """
        self._intake.fail_lane(lane, error, pictures_only=pictures_only)

    def has_failed(self, lane: Lane) -> bool:
        """Whether a lane could not be opened."""
        return self._intake.has_failed(lane)

    def submit(self, prepared: Prepared, on_progress: OnProgress | None) -> Future[Image]:
        """Put a request in its lane's line; raises EngineClosed."""
        return self._intake.submit(prepared, on_progress)

    def close(self, *, drain: bool) -> None:
        """Let nobody in any more, and return when everybody has been answered and both threads have ended.

        One that went on while the interpreter is torn down could be the last to hold arrays, and freeing an
        array then ends the process with an abort. Only a thread that hangs is not waited for.
        """
        self._intake.close(drop=not drain)
        if threading.current_thread() in (self._thread, self._guarding) or self._thread.ident is None:
            return
        self._ended.wait()
        if self._stuck_after:
            self._guarding.join()
        if not self._hanging:
            self._thread.join()

    def _new_watchdog(self) -> Watchdog:
        return Watchdog(clock=self._clock, stuck_after=self._stuck_after)

    def _thread_for(self, scheduler: Scheduler) -> threading.Thread:
        return threading.Thread(target=self._work, args=(scheduler,), name="sdjax-engine", daemon=True)

    def _work(self, scheduler: Scheduler) -> None:
        try:
            while self._intake.wait_for_work(scheduler):
                scheduler.turn()
            scheduler.land_everything()  # a process that ended while the devices work could break
        except Abandoned:  # everything is the next thread's by now
            logger.warning("the devices have answered the thread that was left behind")
        except BaseException:
            self._end(STOPPED)
            raise
        else:
            self._end(STOPPED)

    def _end(self, reason: str) -> None:
        """Let nobody in, and answer every request that is still here, whatever its callbacks do."""
        for pending in self._intake.shut():
            try:
                pending.fail(EngineClosed(reason))
            except BaseException:
                logger.exception("a callback failed")
        self._ended.set()

    def _guard(self) -> None:
        """Look again and again whether the devices keep the thread waiting for too long."""
        while not self._ended.wait(min(MOST_SECONDS_BETWEEN_LOOKS, self._stuck_after / LOOKS)):
            try:
                if self._scheduler.watchdog.abandon():
                    self._replace()
            except Exception:
                logger.exception("the thread that hangs cannot be replaced: the engine is given up")
                self._give_up()

    def _replace(self) -> None:
        """Leave the stuck thread behind; give the engine up where that has not helped before."""
        stuck = self._scheduler
        if self._restarts and not stuck.landed:
            logger.error("the devices still do not answer: the engine is given up")
            self._give_up()
            return
        logger.error("the devices do not answer: their work begins anew")
        self._scheduler = stuck.anew(self._new_watchdog())
        self._thread = self._thread_for(self._scheduler)
        self._restarts += 1
        self._thread.start()

    def _give_up(self) -> None:
        self._hanging = True
        self._end(HANGING)
