"""An outage of the queue in the log: one line at its beginning, one a minute while it lasts, one at its end.

    Database ──failed──► Outage ──► the lines of the outage
             ──worked──►    └─ marks the error as logged ──► bot.telemetry.log drops lines of loops about it

Every loop reaches the database through one `Database`, so that one `Outage` hears of all of them. It is made
by the first failure, and dropped at its end.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from bot.domain.errors import StoreUnavailable
from bot.telemetry.log import FIELDS

log = logging.getLogger(__name__)

LINE_SECONDS = 60.0
SETTLED_SECONDS = 45.0
"""An outage is over after these seconds without a failure.

One success is not enough: with a full disk or a locked table, reads succeed between the failing writes. A
heartbeat writes every 5 s, and its statement ends after 30 s by default.
"""
MOST_REASONS = 5  # in one line


class Outage:
    """Hears of each failure and success of a database, from the first failure on; `steady` is monotonic.

    Everything happens inside those calls: no timer keeps a process alive. `failed` marks its error as logged.
    """

    def __init__(self, steady: Callable[[], float] = time.monotonic) -> None:
        self._steady = steady
        self._began_at = self._failed_at = steady()
        self._told_at: float | None = None
        self._worked_at: float | None = None  # the first success after the last failure
        self._reasons: list[str] = []  # of the failures since the last line
        self._told: list[str] = []  # the reasons in the last line

    def failed(self, error: StoreUnavailable) -> None:
        """Log the beginning of an outage, or, a minute after the last line, that it lasts."""
        error.logged = True
        now = self._steady()
        self._failed_at, self._worked_at = now, None
        if (reason := str(error)) not in self._reasons and len(self._reasons) < MOST_REASONS:
            self._reasons.append(reason)
        if self._told_at is None:
            self._tell("the queue cannot be used", now)
        elif now - self._told_at >= LINE_SECONDS:
            self._tell(f"the queue cannot be used, for {now - self._began_at:.0f} s now", now)

    def worked(self) -> bool:
        """Return whether the outage is over, and log it: no use has failed for SETTLED_SECONDS."""
        now = self._steady()
        if self._worked_at is None:
            self._worked_at = now
        if now - self._failed_at < SETTLED_SECONDS:
            return False
        seconds = self._worked_at - self._began_at
        untold = [reason for reason in self._reasons if reason not in self._told]
        also = f"; other failures meanwhile: {' '.join(untold)}" if untold else ""
        _log(logging.WARNING, f"the queue can be used again, after {seconds:.0f} s{also}")
        return True

    def _tell(self, words: str, now: float) -> None:
        _log(logging.ERROR, f"{words}: {' '.join(self._reasons)}")
        self._told_at = now
        self._told, self._reasons = self._reasons, []


def _log(level: int, line: str) -> None:
    # The line is about no job, also where the verb of a job was the first to fail.
    log.log(level, "%s", line, extra=dict.fromkeys(FIELDS))
