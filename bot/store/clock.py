"""The queue's clock, which all processes of the queue share.

SQLite uses the machine's clock, PostgreSQL the server's clock. Both may be set by an administrator. Times are
therefore compared only with times that are renewed regularly, and no lease is taken from a process soon after
a jump: see `undisturbed`.
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
"""Within these seconds after a jump every living process has renewed its leases by the new time."""

Read = Callable[[], float]


class Clock:
    """Seconds since the epoch. `on_jump` is called when the clock was set.

    `wall` may be set at any time, `steady` is monotonic. With `server` the time is that of `refresh`, carried
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
        """Return the time now."""
        now, elapsed = self._wall(), self._steady()
        if self._last is not None:
            self._compare((now - self._last[0]) - (elapsed - self._last[1]), elapsed)
        self._last = now, elapsed
        return now

    @property
    def undisturbed(self) -> float:
        """Return for how many seconds the clock has not jumped; infinite if it has not jumped."""
        self()
        return self._steady() - self._jumped_at

    @property
    def is_stale(self) -> bool:
        """Return whether `refresh` is due; never without a server."""
        return self._server and self._steady() - self._refreshed_at >= REFRESH_SECONDS

    async def refresh(self, connection: AsyncConnection) -> None:
        """Read the server's time."""
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
