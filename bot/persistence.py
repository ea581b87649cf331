"""What the disk or the database refuses is tried again for a while."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from bot.errors import StoreUnavailable

log = logging.getLogger(__name__)

T = TypeVar("T")


async def persistently(verb: Callable[[], Awaitable[T]], *, seconds: float) -> T:
    """What `verb` returns, tried again and again with growing pauses until one is over `seconds`.

    Raises the last StoreUnavailable.
    """
    wait = 0.1
    while True:
        try:
            return await verb()
        except StoreUnavailable as error:
            if wait > seconds:
                raise
            log.warning("tried again in a moment: %s", error)
        await asyncio.sleep(wait * (0.5 + random.random()))  # noqa: S311 - spreads load, guards nothing
        wait *= 2
