"""The engine's thread and the door to it: people come in from any thread, the loop works on one.

A second thread watches the first. Devices that answer nothing any more cannot be interrupted, so the thread
that waits for them is left behind and another begins with the same people and empty seats. If that one gets
no answer either, the engine is given up: everybody is told, and only a new process can help.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from sdjax_engine.desks import Desk
from sdjax_engine.loop import Painting
from sdjax_engine.prepared import Prepared
from sdjax_engine.request import EngineClosed, EngineError, Image, Lane, OnProgress
from sdjax_engine.spares import Spares
from sdjax_engine.tickets import Ticket
from sdjax_engine.watch import Abandoned, Watch

logger = logging.getLogger(__name__)

CLOSING = "The engine is closing and takes no more requests."
STOPPED = "The engine has stopped."
HANGING = "The devices answer nothing any more, even after a restart."
LOOKS = 10  # how often the watcher looks within `stuck_after`, at least
MOST_SECONDS_BETWEEN_LOOKS = 5.0


class PaintingThread:
    """Runs the loop; every method may be called from any thread.

    `stuck_after` is how many seconds of silence, beyond what work usually takes, make devices stuck (0:
    none). Lanes may be added while it runs.
    """

    def __init__(
        self,
        desks: Mapping[Lane, Desk],
        *,
        clock: Callable[[], float],
        spares: int = 0,
        stuck_after: float = 0.0,
    ) -> None:
        self._clock = clock
        self._stuck_after = stuck_after
        self._door = threading.Condition()
        self._arrivals: list[Ticket] = []
        self._homeless: list[Ticket] = []  # whose lane is not open yet
        self._unanswered: set[Future[Image]] = set()
        self._opened: list[Desk] = []
        self._failed: dict[tuple[Lane, bool], EngineError] = {}  # by lane, and whether from pictures only
        self._look_again = False
        self._closing = False
        self._dropping = False
        self._restarts = 0
        self._hanging = False
        self._ended = threading.Event()
        self._watch = Watch(clock=clock, stuck_after=stuck_after)
        self._painting = Painting(desks, clock=clock, watch=self._watch, spares=Spares(spares))
        self._thread = self._thread_for(self._painting)
        self._guarding = threading.Thread(target=self._guard, name="sdjax-engine watch", daemon=True)

    @property
    def desks(self) -> Mapping[Lane, Desk]:
        """The desks that are open."""
        with self._door:
            return {**self._painting.desks, **{desk.lane: desk for desk in self._opened}}

    @property
    def restarts(self) -> int:
        """How often a stuck thread was left behind for a new one."""
        return self._restarts

    @property
    def painted_for(self) -> bool:
        """Whether anybody waits for an answer."""
        return bool(self._unanswered)

    @property
    def kept_waiting(self) -> bool:
        """Whether anybody waits for a lane that is not open, or for one to start from pictures."""
        return bool(self._homeless)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()
        if self._stuck_after:
            self._guarding.start()

    def open_desk(self, desk: Desk) -> None:
        """Serve one more lane, and whoever waits for it."""
        with self._door:
            self._opened.append(desk)
            self._door.notify_all()

    def look_again(self) -> None:
        """See whether a desk can now do what somebody waits for: start from pictures."""
        with self._door:
            self._look_again = True
            self._door.notify_all()

    def fail_lane(self, lane: Lane, error: EngineError, *, pictures_only: bool = False) -> None:
        """Answer whoever waits for a lane that is not open, and whoever will, with `error`.

        With `pictures_only`, those who start from a picture in a lane that can only paint from noise.
        """
        with self._door:
            self._failed[lane, pictures_only] = error
            self._door.notify_all()

    def has_failed(self, lane: Lane) -> bool:
        """Whether a lane could not be opened."""
        return (lane, False) in self._failed

    def submit(self, prepared: Prepared, on_progress: OnProgress | None) -> Future[Image]:
        """Put a request in its lane's line; raises EngineClosed."""
        with self._door:
            if self._closing:
                raise EngineClosed(CLOSING)
            ticket = Ticket(prepared=prepared, on_progress=on_progress)
            self._arrivals.append(ticket)
            self._unanswered.add(ticket.future)
            self._door.notify_all()
        ticket.future.add_done_callback(self._unanswered.discard)
        return ticket.future

    def close(self, *, drain: bool) -> None:
        """Let nobody in any more, and return when everybody has been answered and both threads have ended.

        One that went on while the interpreter is torn down could be the last to hold arrays, and freeing an
        array then ends the process with an abort. Only a thread that hangs is not waited for.
        """
        with self._door:
            self._closing = True
            self._dropping = self._dropping or not drain
            self._door.notify_all()
        if threading.current_thread() in (self._thread, self._guarding) or self._thread.ident is None:
            return
        self._ended.wait()
        if self._stuck_after:
            self._guarding.join()
        if not self._hanging:
            self._thread.join()

    def _thread_for(self, painting: Painting) -> threading.Thread:
        return threading.Thread(target=self._work, args=(painting,), name="sdjax-engine", daemon=True)

    def _work(self, painting: Painting) -> None:
        try:
            while self._let_in(painting):
                painting.turn()
            painting.land_everything()  # a process that ended while the devices work could break
        except Abandoned:
            logger.warning("the devices have answered the thread that was left behind")
        finally:
            self._lock_up(painting)

    def _let_in(self, painting: Painting) -> bool:
        """Wait until there is something to do, and let arrivals join their lines; False: time to go home."""
        with self._door:
            while not self._something_to_do(painting):
                self._door.wait(self._sleep(painting))
            for desk in self._opened:
                painting.desks[desk.lane] = desk
            waiting = [*self._homeless, *self._arrivals]
            self._opened, self._homeless, self._arrivals = [], [], []
            self._look_again = False
            for ticket in waiting:
                self._show_in(painting, ticket)
            if self._dropping:
                self._drop_everybody(painting)
            return painting.occupied or not self._closing or bool(self._homeless)

    def _something_to_do(self, painting: Painting) -> bool:
        if self._arrivals or self._opened or self._look_again or painting.busy or self._dropping:
            return True
        if any(self._failure(ticket) for ticket in self._homeless):
            return True
        return self._closing and not (painting.occupied or self._homeless)

    def _sleep(self, painting: Painting) -> float | None:
        wake_at = painting.wake_at
        return None if wake_at is None else max(0.0, wake_at - self._clock())

    def _show_in(self, painting: Painting, ticket: Ticket) -> None:
        """Lead a newcomer to their lane's line; before the lane can paint for them they wait for it."""
        desk = painting.desks.get(ticket.prepared.request.lane)
        from_picture = ticket.prepared.picture is not None
        if desk is not None and (desk.device.starts_from_pictures or not from_picture):
            painting.join(ticket)
        elif (error := self._failure(ticket)) is not None:
            ticket.fail(error)
        elif ticket.given_up:
            ticket.dismiss()
        else:
            self._homeless.append(ticket)

    def _failure(self, ticket: Ticket) -> EngineError | None:
        """Why somebody can never be painted; None where they can, as far as is known."""
        lane = ticket.prepared.request.lane
        error = self._failed.get((lane, False))
        if error is None and ticket.prepared.picture is not None:
            error = self._failed.get((lane, True))
        return error

    def _drop_everybody(self, painting: Painting) -> None:
        for ticket in painting.tickets:
            ticket.future.cancel()
        for ticket in self._homeless:
            ticket.future.cancel()
            ticket.dismiss()
        self._homeless = []

    def _lock_up(self, painting: Painting, reason: str = STOPPED) -> None:
        """Let nobody in, and answer whoever is still here: nobody, unless the loop itself has broken."""
        with self._door:
            if painting is not self._painting or self._ended.is_set():
                return
            self._closing = True
            left = [*painting.tickets, *self._homeless, *self._arrivals]
            self._homeless, self._arrivals = [], []
        for ticket in left:
            ticket.fail(EngineClosed(reason))
        self._ended.set()

    def _guard(self) -> None:
        """Look again and again whether the devices keep the thread waiting for too long."""
        while not self._ended.wait(min(MOST_SECONDS_BETWEEN_LOOKS, self._stuck_after / LOOKS)):
            if self._watch.abandon():
                self._replace()

    def _replace(self) -> None:
        """Leave the stuck thread behind; give the engine up where that has not helped before."""
        stuck = self._painting
        if self._restarts and not stuck.landed:
            logger.error("the devices still do not answer: the engine is given up")
            self._hanging = True
            self._lock_up(stuck, HANGING)
            return
        logger.error("the devices do not answer: their work begins anew")
        with self._door:
            self._restarts += 1
            self._watch = Watch(clock=self._clock, stuck_after=self._stuck_after)
            self._painting = stuck.anew(self._watch)
            self._thread = self._thread_for(self._painting)
            self._thread.start()
