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
"""Asks the authority, and returns the signed file.

Raises NoTimeStamp if the authority fails, and any other error if the file cannot be signed at all.
"""


class NoTimeStamp(Exception):
    """The authority has given no time stamp that the library accepts; the text says why."""


class TimeStamps:
    """Gives up requests to the authority in time: each has a thread of its own, as names may resolve slowly.

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
        self._lock = threading.Lock()
        self._paused_until = clock()
        self._failed = False

    def signed(self, sign: Sign) -> bytes | None:
        """Return the file that `sign` returns, or None after `seconds`, at once after a failure.

        Raises the errors of `sign` that are not the authority's.
        """
        if self._failed:
            self._try_again(sign)
            return None
        answers: queue.SimpleQueue[bytes | Exception] = queue.SimpleQueue()
        self._begin(sign, answers.put)
        try:
            answer = answers.get(timeout=self._seconds)
        except queue.Empty:
            answer = NoTimeStamp(f"no answer within {self._seconds:g} s")
        if isinstance(answer, NoTimeStamp):
            self._note(answer)
            return None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _try_again(self, sign: Sign) -> None:
        """Ask the authority, if the pause is over; nothing waits for it."""
        with self._lock:
            if self._clock() < self._paused_until:
                return
            self._paused_until = self._clock() + self._pause
        self._begin(sign, self._note_again)

    def _begin(self, sign: Sign, tell: Callable[[bytes | Exception], None]) -> None:
        threading.Thread(target=self._answer, args=(sign, tell), name="time stamp", daemon=True).start()

    def _answer(self, sign: Sign, tell: Callable[[bytes | Exception], None]) -> None:
        began = self._clock()
        try:
            answer = sign()
            tell(answer if self._clock() - began <= self._seconds else NoTimeStamp("a late answer"))
        except Exception as error:  # noqa: BLE001 - the thread that waits takes it
            tell(error)

    def _note_again(self, answer: bytes | Exception) -> None:
        if not isinstance(answer, Exception):
            log.info("the time-stamp authority answers: pictures have its time stamps again")
            self._failed = False

    def _note(self, error: NoTimeStamp) -> None:
        with self._lock:
            first, self._failed = not self._failed, True
            self._paused_until = self._clock() + self._pause
        if first:
            log.warning(
                "pictures are signed without a time stamp; its authority is asked every %.0f s: %s",
                *(self._pause, error),
            )
