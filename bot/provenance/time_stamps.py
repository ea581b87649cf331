"""Time stamps of an authority (RFC 3161) in signatures, as long as the authority answers in time."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

ANSWER_SECONDS = 3.0  # an authority usually answers within half a second
PAUSE_SECONDS = 60.0  # after a failure; meanwhile nothing waits for the authority

Sign = Callable[[], bytes]
"""Asks the authority, and returns the signed file; may raise any error."""


class TimeStamps:
    """Gives up requests to the authority in time; the library gives them no limit.

    So each request has a thread of its own, one at a time, and a thread that does not return is left alone.
    After a failure no picture waits for the authority until it has answered a request that no picture waits
    for: at most one each `pause`.
    """

    def __init__(
        self,
        *,
        seconds: float = ANSWER_SECONDS,
        pause: float = PAUSE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = seconds
        self._pause = pause
        self._clock = clock
        self._turn = threading.Lock()
        self._paused_until = clock()
        self._failed = False

    def signed(self, sign: Sign) -> bytes | None:
        """Return the file that `sign` returns, or None after `seconds`, at once after a failure."""
        if self._failed:
            self._try_again(sign)
            return None
        end = self._clock() + self._seconds
        if not self._turn.acquire(timeout=self._seconds):
            return None
        answers: queue.SimpleQueue[bytes | Exception] = queue.SimpleQueue()
        self._begin(sign, answers.put)
        try:
            answer = answers.get(timeout=max(0.0, end - self._clock()))
        except queue.Empty:
            answer = TimeoutError(f"no answer within {self._seconds:g} s")
        if isinstance(answer, Exception):
            self._note(answer)
            return None
        return answer

    def _try_again(self, sign: Sign) -> None:
        """Ask the authority, if the pause is over and no earlier request hangs; nothing waits for it."""
        if self._clock() >= self._paused_until and self._turn.acquire(blocking=False):
            self._paused_until = self._clock() + self._pause
            self._begin(sign, self._note_again)

    def _begin(self, sign: Sign, tell: Callable[[bytes | Exception], None]) -> None:
        threading.Thread(target=self._answer, args=(sign, tell), name="time stamp", daemon=True).start()

    def _answer(self, sign: Sign, tell: Callable[[bytes | Exception], None]) -> None:
        began = self._clock()
        try:
            answer = sign()
            tell(answer if self._clock() - began <= self._seconds else TimeoutError("a late answer"))
        except Exception as error:  # noqa: BLE001 - the thread that waits takes it
            tell(error)
        finally:
            self._turn.release()

    def _note_again(self, answer: bytes | Exception) -> None:
        self._failed = isinstance(answer, Exception)

    def _note(self, error: Exception) -> None:
        self._paused_until = self._clock() + self._pause
        if not self._failed:
            log.warning(
                "pictures are signed without a time stamp; its authority is asked every %.0f s: %s",
                *(self._pause, error),
            )
        self._failed = True
