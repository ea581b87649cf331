"""One image's way through the engine: its state, who waits for it, and how they are answered, once.

             ┌──────────── begins anew ◄───────────┐
WAITING ─────┴► SEATED ──► IN_FLIGHT ──► DECODED ──┴► ANSWERED
   └──── painted ahead ───────┘   └─ decoded again ┘
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from sdjax_engine.model.prepare import Prepared
from sdjax_engine.request import EngineError, Image, OnProgress, Progress, Trouble

logger = logging.getLogger(__name__)


class State(Enum):
    """How far an image is."""

    WAITING = "in the line, or its lane is not open yet"
    SEATED = "has a seat of the batch"
    IN_FLIGHT = "its last evaluations or its decoding are with the devices; its seat is free"
    DECODED = "the devices have made the picture, and the host reads it"
    ANSWERED = "somebody has the picture or an error, or has cancelled"


NEXT: Mapping[State, frozenset[State]] = MappingProxyType(
    {
        State.WAITING: frozenset({State.SEATED, State.IN_FLIGHT}),
        State.SEATED: frozenset({State.IN_FLIGHT, State.WAITING}),
        State.IN_FLIGHT: frozenset({State.DECODED, State.WAITING}),
        State.DECODED: frozenset({State.IN_FLIGHT, State.WAITING}),
    }
)
"""What each state is followed by, besides ANSWERED."""


@dataclass(kw_only=True, eq=False)
class PendingRequest:
    """An image in the engine.

    The future may be cancelled at any moment, from any thread; the cancellation or the answer counts,
    whichever comes first. `attempts` counts how often the image began anew; `decoded_again` says whether its
    latents have been decoded a second time.
    """

    prepared: Prepared
    future: Future[Image] = field(default_factory=Future)
    on_progress: OnProgress | None = None
    seated_at: float = 0.0
    attempts: int = 0
    decoded_again: bool = False
    _state: State = State.WAITING
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        """Let a cancellation be the answer at once, wherever the image is."""
        self.lane = self.prepared.request.lane
        self.future.add_done_callback(self._note_cancellation)

    @property
    def state(self) -> State:
        """How far the image is."""
        return self._state

    @property
    def answered(self) -> bool:
        """Whether there is an answer, or nobody waits for one any more."""
        return self._state is State.ANSWERED

    def move(self, state: State) -> None:
        """Note the image's next state, unless it is answered; ValueError for one that cannot follow."""
        with self._lock:
            if self.answered:
                return
            if state not in NEXT[self._state]:
                raise ValueError(f"an image that is {self._state.name} cannot be {state.name} next")
            self._state = state

    def give(self, image: Image) -> None:
        """Answer with the picture, unless the ticket is answered or cancelled already."""
        if self._may_answer():
            self.future.set_result(image)

    def fail(self, error: EngineError) -> None:
        """Answer with the error, unless the ticket is answered or cancelled already."""
        if self._may_answer():
            self.future.set_exception(error)

    def tell(self, evaluation: int) -> None:
        """Call the person back with how far the image is; an error in that is theirs."""
        steps = self.prepared.request.num_inference_steps
        self._tell(Progress(step=round(evaluation / self.prepared.evaluations * steps), steps=steps))

    def tell_trouble(self, trouble: Trouble) -> None:
        """Call the person back with why the image begins anew."""
        self._tell(Progress(step=0, steps=self.prepared.request.num_inference_steps, trouble=trouble))

    def _tell(self, progress: Progress) -> None:
        if self.on_progress is None or self.answered:
            return
        try:
            self.on_progress(progress)
        except Exception:
            logger.exception("a progress callback failed")

    def _note_cancellation(self, future: Future[Image]) -> None:
        """Let `concurrent.futures.wait` know that nothing will come of a cancelled image."""
        if future.cancelled():
            self._may_answer()

    def _may_answer(self) -> bool:
        with self._lock:
            if self.answered:
                return False
            self._state = State.ANSWERED
        return self.future.set_running_or_notify_cancel()
