"""What operators see of a process, whatever its role: metrics, health, and a loop that stands still."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack

from bot import restarts
from bot.config import Config
from bot.errors import StoreUnavailable
from bot.metrics import WELL, Metrics
from bot.stalls import StallWatch
from bot.store import Store
from bot.web.health import Check
from bot.web.server import serving


async def watch(
    config: Config, store: Store, metrics: Metrics, checks: dict[str, Check], stack: AsyncExitStack
) -> None:
    """Serve the pages where the configuration wants them, and watch the event loop; `stack` ends both.

    Parts that come later add themselves to `checks`. Raises ConfigurationError for a port that is taken.
    """
    metrics.worker.process_restarts.set(restarts.count(os.environ))

    async def reachable() -> str:
        try:
            await store.backlog()
        except StoreUnavailable as error:
            return str(error)
        return WELL

    checks["store"] = reachable
    watching = asyncio.create_task(StallWatch(metrics.loop).run(), name="stalls")
    stack.callback(watching.cancel)
    web = config.web
    pages = serving(web.host, web.port, metrics, refresh=lambda: read_backlog(store, metrics), checks=checks)
    await stack.enter_async_context(pages)


async def read_backlog(store: Store, metrics: Metrics) -> None:
    """Bring the metrics of what waits up to date; as they were where the store cannot be read."""
    try:
        backlog = await store.backlog()
    except StoreUnavailable:
        return
    metrics.store.waiting.set(backlog.waiting)
    metrics.store.running.set(backlog.running)
    metrics.store.undelivered.set(backlog.undelivered)
    metrics.store.oldest_undelivered.set(backlog.oldest_seconds)
