"""Wakes whoever waits in this process; others find the work by polling."""

from __future__ import annotations

import asyncio


class Bell:
    """Rung when there is something to do. A ring that nobody hears wakes the next one who waits."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Wake all who wait now, or the next who will."""
        self._rung.set()

    async def wait(self, seconds: float) -> None:
        """Return at a ring, or after `seconds`: the work may have come from another process."""
        try:
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        except TimeoutError:
            return
        self._rung.clear()
