"""One image's way through the engine: who waits for it, and how they are answered, once."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field

from sdjax_engine.prepared import Prepared
from sdjax_engine.request import EngineError, Image, OnProgress, Progress, Trouble

logger = logging.getLogger(__name__)


@dataclass(kw_only=True, eq=False)
class Ticket:
    """An image in the engine.

    Whoever waits may cancel the future at any moment, from any thread: whichever comes first, that or the
    answer, is what they get. `attempts` counts how often it began anew; `decoded_again` whether its latents
    have been decoded a second time.
    """

    prepared: Prepared
    future: Future[Image] = field(default_factory=Future)
    on_progress: OnProgress | None = None
    seated_at: float = 0.0
    attempts: int = 0
    decoded_again: bool = False
    _answered: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def answered(self) -> bool:
        """Whether they have their answer."""
        return self._answered

    @property
    def given_up(self) -> bool:
        """Whether nobody waits any more, though the ticket may not have been dismissed yet."""
        return self.future.cancelled()

    def give(self, image: Image) -> None:
        """Answer with the picture, unless the ticket is answered or cancelled already."""
        if self._may_answer():
            self.future.set_result(image)

    def fail(self, error: EngineError) -> None:
        """Answer with the error, unless the ticket is answered or cancelled already."""
        if self._may_answer():
            self.future.set_exception(error)

    def dismiss(self) -> None:
        """Let `concurrent.futures.wait` know that nothing will come of a cancelled image."""
        self._may_answer()

    def tell(self, evaluation: int) -> None:
        """Call the person back with how far the image is; an error in that is theirs."""
        steps = self.prepared.request.num_inference_steps
        self._tell(Progress(step=round(evaluation / self.prepared.evaluations * steps), steps=steps))

    def tell_trouble(self, trouble: Trouble) -> None:
        """Call the person back with why the image begins anew."""
        self._tell(Progress(step=0, steps=self.prepared.request.num_inference_steps, trouble=trouble))

    def _tell(self, progress: Progress) -> None:
        if self.on_progress is None or self.answered or self.given_up:
            return
        try:
            self.on_progress(progress)
        except Exception:
            logger.exception("a progress callback failed")

    def _may_answer(self) -> bool:
        with self._lock:
            if self._answered:
                return False
            self._answered = True
        return self.future.set_running_or_notify_cancel()
