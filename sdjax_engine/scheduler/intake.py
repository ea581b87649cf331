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
from sdjax_engine.scheduler.lane_queue import Desk
from sdjax_engine.scheduler.loop import Painting
from sdjax_engine.scheduler.pending import Ticket

CLOSING = "The engine is closing and takes no more requests."

Wanted = tuple[Lane, bool]
"""A lane, and whether it must be able to start from a picture."""


class Door:
    """What has come in and the loop has not seen yet; every method may be called from any thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._unanswered: dict[Ticket, None] = {}
        self._arrivals: list[Ticket] = []
        self._cancelled: list[Ticket] = []
        self._homeless: dict[Wanted, dict[Ticket, None]] = {}  # whose lane is not open yet
        self._opened: list[Desk] = []
        self._failed: dict[Wanted, EngineError] = {}
        self._look_again = False
        self._closing = False
        self._dropping = False

    @property
    def painted_for(self) -> bool:
        """Whether anybody waits for an answer."""
        return bool(self._unanswered)

    @property
    def kept_waiting(self) -> bool:
        """Whether anybody waits for a lane that is not open, or for one to start from pictures."""
        return bool(self._homeless)

    def submit(self, prepared: Prepared, on_progress: OnProgress | None) -> Future[Image]:
        """Let a request in; raises EngineClosed."""
        ticket = Ticket(prepared=prepared, on_progress=on_progress)
        with self._changed:
            if self._closing:
                raise EngineClosed(CLOSING)
            self._arrivals.append(ticket)
            self._unanswered[ticket] = None
            self._changed.notify_all()
        ticket.future.add_done_callback(partial(self._forget, ticket))
        return ticket.future

    def open_desk(self, desk: Desk) -> None:
        """Serve one more lane, and whoever waits for it."""
        with self._changed:
            self._opened.append(desk)
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

    def desks(self, painting: Painting) -> dict[Lane, Desk]:
        """The desks of a loop, with those that it has not seen yet."""
        with self._changed:
            return {**painting.desks, **{desk.lane: desk for desk in self._opened}}

    def close(self, *, drop: bool) -> None:
        """Let nobody in any more; with `drop`, cancel every request that is here."""
        with self._changed:
            self._closing = True
            self._dropping = self._dropping or drop
            self._changed.notify_all()

    def shut(self) -> list[Ticket]:
        """Let nobody in any more, and return every request that is not answered."""
        self.close(drop=False)
        with self._changed:
            return list(self._unanswered)

    def let_in(self, painting: Painting) -> bool:
        """Wait until the loop has something to do, and let it have what came; False: it may end."""
        while True:
            with self._changed:
                while not self._something_to_do(painting):
                    self._changed.wait(self._sleep(painting))
                answers = self._show_in(painting)
                goes_on = painting.occupied or bool(self._homeless) or not self._closing
            if not answers:
                return goes_on
            for answer in answers:
                answer()

    def _something_to_do(self, painting: Painting) -> bool:
        if self._arrivals or self._cancelled or self._opened or self._look_again or self._dropping:
            return True
        if painting.busy or any(self._failure(wanted) for wanted in self._homeless):
            return True
        return self._closing and not (painting.occupied or self._homeless)

    def _sleep(self, painting: Painting) -> float | None:
        wake_at = painting.wake_at
        return None if wake_at is None else max(0.0, wake_at - self._clock())

    def _show_in(self, painting: Painting) -> list[Callable[[], object]]:
        """Give the loop what has come, and return the calls that answer who will not be painted."""
        for desk in self._opened:
            painting.open(desk)
        for ticket in self._cancelled:
            self._send_away(painting, ticket)
        settled = [wanted for wanted in self._homeless if self._is_settled(painting, wanted)]
        coming = [ticket for wanted in settled for ticket in self._homeless.pop(wanted)] + self._arrivals
        self._opened, self._cancelled, self._arrivals, self._look_again = [], [], [], False
        answers: list[Callable[[], object]] = []
        for ticket in coming:
            wanted = wanted_by(ticket)
            if ticket.answered:
                continue
            if can_paint(painting, wanted):
                painting.join(ticket)
            elif (error := self._failure(wanted)) is not None:
                answers.append(partial(ticket.fail, error))
            else:
                self._homeless.setdefault(wanted, {})[ticket] = None
        if self._dropping:
            answers += [ticket.future.cancel for ticket in self._unanswered if not ticket.answered]
        return answers

    def _is_settled(self, painting: Painting, wanted: Wanted) -> bool:
        """Whether it is known by now if what is wanted can be painted."""
        return can_paint(painting, wanted) or self._failure(wanted) is not None

    def _send_away(self, painting: Painting, ticket: Ticket) -> None:
        wanted = wanted_by(ticket)
        waiting = self._homeless.get(wanted, {})
        waiting.pop(ticket, None)
        if not waiting:
            self._homeless.pop(wanted, None)
        painting.leave(ticket)

    def _failure(self, wanted: Wanted) -> EngineError | None:
        """Why nobody can ever be painted who wants this; None where that can be, as far as is known."""
        lane, from_picture = wanted
        error = self._failed.get((lane, False))
        return self._failed.get((lane, True)) if error is None and from_picture else error

    def _forget(self, ticket: Ticket, future: Future[Image]) -> None:
        with self._changed:
            self._unanswered.pop(ticket, None)
            if future.cancelled():
                self._cancelled.append(ticket)
                self._changed.notify_all()


def wanted_by(ticket: Ticket) -> Wanted:
    """Return what a request needs to be painted."""
    return ticket.prepared.request.lane, ticket.prepared.picture is not None


def can_paint(painting: Painting, wanted: Wanted) -> bool:
    """Whether the loop can paint now what is wanted."""
    lane, from_picture = wanted
    desk = painting.desks.get(lane)
    return desk is not None and (desk.device.starts_from_pictures or not from_picture)
