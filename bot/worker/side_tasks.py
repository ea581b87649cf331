"""The endless tasks beside the worker's loop: an unexpected error restarts one of them, not the worker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NoReturn

log = logging.getLogger(__name__)

RESTART_SECONDS = 5.0


async def keep_running(
    work: Callable[[], Awaitable[None]], name: str, *, pause_seconds: float = RESTART_SECONDS
) -> NoReturn:
    """Run endless work until cancelled; after an error it starts again `pause_seconds` later."""
    while True:
        try:
            await work()
        except Exception:
            log.exception("the %s failed and starts again in %g s", name, pause_seconds)
        await asyncio.sleep(pause_seconds)
