"""The queue's time, which everybody who shares the queue must read alike.

In a file it is the machine's clock; on a server it is the server's, whatever the clocks of the machines
around it show. Either may be set, so times are only compared with what is written by it again and again,
and nothing is taken from anybody soon after a jump: see `undisturbed`.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

log = logging.getLogger(__name__)

JUMP_SECONDS = 2.0
REFRESH_SECONDS = 10.0
SETTLING_SECONDS = 3 * REFRESH_SECONDS
"""After a jump everybody alive has noticed it, and written their leases by the new time, within this."""

Read = Callable[[], float]


class Clock:
    """Seconds since the epoch. `on_jump` is told when the clock was set.

    `wall` may be set at any moment, `steady` only goes on. With `server` the time is `refresh`'s, carried
    forward by `steady`.
    """

    def __init__(
        self,
        wall: Read = time.time,
        steady: Read = time.monotonic,
        *,
        server: bool = False,
        on_jump: Callable[[], None] = lambda: None,
    ) -> None:
        self._steady = steady
        self._server = server
        self._wall = self._carried if server else wall
        self._on_jump = on_jump
        self._offset = 0.0
        self._refreshed_at = -math.inf
        self._jumped_at = -math.inf
        self._last: tuple[float, float] | None = None

    def __call__(self) -> float:
        """The time now."""
        now, elapsed = self._wall(), self._steady()
        if self._last is not None:
            self._compare((now - self._last[0]) - (elapsed - self._last[1]), elapsed)
        self._last = now, elapsed
        return now

    @property
    def undisturbed(self) -> float:
        """For how many seconds the clock has not jumped; infinite where it was not seen to."""
        self()
        return self._steady() - self._jumped_at

    @property
    def is_stale(self) -> bool:
        """Whether `refresh` is due; never without a server."""
        return self._server and self._steady() - self._refreshed_at >= REFRESH_SECONDS

    async def refresh(self, connection: AsyncConnection) -> None:
        """Ask the server for the time."""
        before = self._steady()
        told = await connection.scalar(sa.text("SELECT extract(epoch FROM clock_timestamp())::float8"))
        after = self._steady()
        self._offset = float(told) - (before + after) / 2
        self._refreshed_at = after

    def _carried(self) -> float:
        return self._steady() + self._offset

    def _compare(self, jump: float, elapsed: float) -> None:
        if abs(jump) < JUMP_SECONDS:
            return
        self._jumped_at = elapsed
        self._on_jump()
        log.warning("the queue's clock has jumped by %+.0f s: no lease is taken back for a while", jump)
