"""One image's way through the engine: who waits for it, and how they are answered, once."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from dataclasses import dataclass

from sdjax_engine.loaded import Prepared
from sdjax_engine.request import EngineError, Image, OnProgress, Progress

logger = logging.getLogger(__name__)


@dataclass(kw_only=True, eq=False)
class Ticket:
    """An image in the engine; the lowest `number` came first. Only the engine's thread calls its methods.

    Whoever waits may cancel the future at any moment, from any thread: whichever comes first, that or the
    answer, is what they get.
    """

    prepared: Prepared
    future: Future[Image]
    on_progress: OnProgress | None
    number: int
    seated_at: float = 0.0
    answered: bool = False

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
        if self.on_progress is None or self.answered or self.given_up:
            return
        steps = self.prepared.request.num_inference_steps
        step = round(evaluation / self.prepared.evaluations * steps)
        try:
            self.on_progress(Progress(step=step, steps=steps))
        except Exception:
            logger.exception("a progress callback failed")

    def _may_answer(self) -> bool:
        if self.answered:
            return False
        self.answered = True
        return self.future.set_running_or_notify_cancel()
