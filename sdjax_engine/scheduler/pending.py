"""A request on its way through the engine: its state, its future, and the one answer that it gets.

    ┌──── started again, or its second pass ◄─────┐
WAITING ──► SEATED ──► IN_FLIGHT ──► DECODED ──► ANSWERED
                           └─ decoded again ┘
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from sdjax_engine.errors import EngineError
from sdjax_engine.model.pictures import second_start
from sdjax_engine.model.prepare import Prepared
from sdjax_engine.request import Image, Lane, OnProgress, Progress, Trouble

logger = logging.getLogger(__name__)


class State(Enum):
    """How far a request is."""

    WAITING = "in the queue of its lane, or its lane is not open yet"
    SEATED = "has a seat of the batch"
    IN_FLIGHT = "its last evaluations or its decoding are with the devices; its seat is free"
    DECODED = "the devices have made the picture, and the host reads it, or enlarges it for a second pass"
    ANSWERED = "its future has the picture or an error, or is cancelled"


NEXT: Mapping[State, frozenset[State]] = MappingProxyType(
    {
        State.WAITING: frozenset({State.SEATED}),
        State.SEATED: frozenset({State.IN_FLIGHT, State.WAITING}),
        State.IN_FLIGHT: frozenset({State.DECODED, State.WAITING}),
        State.DECODED: frozenset({State.IN_FLIGHT, State.WAITING}),
    }
)
"""The states that may follow each state, besides ANSWERED."""


@dataclass(kw_only=True, eq=False)
class PendingRequest:
    """A request in the engine.

    The future may be cancelled at any moment, from any thread; the cancellation or the answer counts,
    whichever comes first. With `previews`, its progress has previews. `failures` counts
    how often its pass was started again, except after a shortage of memory; `decoded_again` says whether its
    latents have been decoded a second time. `prepared` and `lane` are those of the pass that it is in, and
    `request` is the whole request. `lanes` are those of its passes, by default the request's own.
    `seconds_of_first_pass` is None before the second pass. `device_seconds` is its share of
    the devices' time, which includes both passes and attempts that ended in a restart.
    """

    prepared: Prepared
    future: Future[Image] = field(default_factory=Future)
    on_progress: OnProgress | None = None
    previews: bool = False
    seated_at: float = 0.0
    failures: int = 0
    decoded_again: bool = False
    lanes: tuple[Lane, ...] = ()
    _state: State = State.WAITING
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        """Begin with the first pass; from now on a cancellation of the future is the answer at once."""
        first, second = self.prepared, self.prepared.second
        self.request = first.request
        self.lanes = self.lanes or self.request.lanes
        self.lane = self.lanes[0]
        self.seconds_of_first_pass: float | None = None
        self.device_seconds = 0.0
        self._steps = self.request.num_inference_steps
        self._work = work_of(first)
        self._work_done = 0.0
        if second is not None:
            self._steps += second.request.num_inference_steps
            self._work += work_of(second)
        self.future.add_done_callback(self._note_cancellation)

    @property
    def state(self) -> State:
        """How far the request is."""
        return self._state

    @property
    def answered(self) -> bool:
        """Whether the future has an answer or is cancelled."""
        return self._state is State.ANSWERED

    def move(self, state: State) -> None:
        """Enter the next state, unless the request is answered; ValueError for a state that cannot follow."""
        with self._lock:
            if self.answered:
                return
            if state not in NEXT[self._state]:
                raise ValueError(f"a request that is {self._state.name} cannot be {state.name} next")
            self._state = state

    def begin_second_pass(self, image: Image) -> None:
        """Wait for a seat of the second pass, which starts from the picture of the first.

        Enlarging the picture takes some hundredths of a second: not on the thread that keeps devices busy.
        """
        first, second = self.prepared, self.prepared.second
        assert second is not None, "a request of one pass has no second"
        start = second_start(image.pixels, second.request, masked=second.picture)
        with self._lock:
            if not self.answered:
                self.seconds_of_first_pass = image.seconds
                self.prepared, self.lane = replace(second, picture=start), self.lanes[-1]
                self.decoded_again = False
                self.failures = 0
                self._work_done = work_of(first)
                self._state = State.WAITING

    def give(self, image: Image) -> None:
        """Answer with the picture, unless the request is answered or cancelled already."""
        if self._may_answer():
            self.future.set_result(image)

    def fail(self, error: EngineError) -> None:
        """Answer with the error, unless the request is answered or cancelled already."""
        if self._may_answer():
            self.future.set_exception(error)

    def tell(
        self,
        evaluation: int,
        *,
        preview: npt.NDArray[np.uint8] | None = None,
        trouble: Trouble | None = None,
    ) -> None:
        """Call the caller back with the step that is reached; an error of the callback is logged."""
        done = self._work_done + work_of(self.prepared) * evaluation / self.prepared.evaluations
        step = round(done / self._work * self._steps)
        self._tell(
            Progress(
                step=step,
                steps=self._steps,
                trouble=trouble,
                preview=preview,
                in_second_pass=self.seconds_of_first_pass is not None,
                device_seconds=self.device_seconds,
            )
        )

    def tell_trouble(self, trouble: Trouble) -> None:
        """Call the caller back with the reason why the request is started again."""
        self.tell(0, trouble=trouble)

    def _tell(self, progress: Progress) -> None:
        if self.on_progress is None or self.answered:
            return
        try:
            self.on_progress(progress)
        except Exception:
            logger.exception("a progress callback failed")

    def _note_cancellation(self, future: Future[Image]) -> None:
        """Let `concurrent.futures.wait` return for a cancelled request."""
        if future.cancelled():
            self._may_answer()

    def _may_answer(self) -> bool:
        with self._lock:
            if self.answered:
                return False
            self._state = State.ANSWERED
        return self.future.set_running_or_notify_cancel()


def work_of(prepared: Prepared) -> float:
    """Return the work of one pass: evaluations × pixels."""
    return prepared.evaluations * prepared.request.height * prepared.request.width
