"""Monitoring of a process: metrics, health, and the watch over the event loop."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress

from bot.app.local_paths import disks_of
from bot.config import Config
from bot.domain.errors import StoreUnavailable
from bot.process import restarts
from bot.process.retries import keep_running
from bot.process.threads import Threads
from bot.store import Store
from bot.store.queue.jobs import Jobs
from bot.telemetry.loop_watch import LoopWatch
from bot.telemetry.metrics import WELL, Metrics
from bot.web.server import Check, serving

BACKLOG_SECONDS = 1.0
PATIENCE_SECONDS = 2.5
"""Prometheus waits 10 s for all metrics; a silent database needs longer to fail."""
NO_WORKER = "no worker paints at the moment: requests are kept until one starts"


async def monitor(
    config: Config, store: Store, metrics: Metrics, checks: dict[str, Check], stack: AsyncExitStack
) -> None:
    """Serve the operators' pages if a port is configured, and watch the event loop; `stack` ends both.

    Parts that open later add themselves to `checks`. Raises ConfigurationError for a port in use, or a token
    that cannot be read.
    """
    metrics.worker.process_restarts.set(restarts.count(os.environ))
    metrics.worker.restarted_at.set(restarts.last(os.environ))
    backlog = BacklogReader(store.jobs, metrics)
    checks["store"] = backlog.check
    watch = keep_running(lambda: LoopWatch(metrics.loop).run(), "loop watch")
    watching = asyncio.create_task(watch, name="loop watch")
    stack.callback(watching.cancel)
    web = config.web
    pages = serving(
        web.host,
        web.port,
        metrics,
        refresh=backlog.refresh,
        checks=checks,
        notes=Notes(config, store).read,
        token=web.read_token(),
    )
    await stack.enter_async_context(pages)


class Notes:
    """What an operator should know although this process is well, in words that say what to do."""

    def __init__(self, config: Config, store: Store) -> None:
        self._config = config
        self._store = store
        self._threads = Threads("disks", most=1)  # a disk that hangs keeps the one thread

    async def read(self) -> list[str]:
        """Return the notes; none from a database that does not answer, which is no fault of the notes."""
        of_workers, of_disks = await asyncio.gather(self._of_workers(), self._of_disks())
        return [*of_workers, *of_disks]

    async def _of_workers(self) -> list[str]:
        with suppress(StoreUnavailable, TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                if not await self._store.offers.is_anything_offered():
                    return [NO_WORKER]
        return []

    async def _of_disks(self) -> list[str]:
        try:
            found = await self._threads.run_within(PATIENCE_SECONDS, lambda: list(disks_of(self._config)))
        except TimeoutError:
            return [f"the disks have not answered within {PATIENCE_SECONDS:g} s: see whether one hangs."]
        except OSError as error:
            return [f"the disks cannot be looked at: {error.strerror}."]
        return [str(disk) for disk in found if disk.is_short]


class BacklogReader:
    """Updates the metrics of the queue, with at most one query in `BACKLOG_SECONDS`."""

    def __init__(self, jobs: Jobs, metrics: Metrics, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._jobs = jobs
        self._metrics = metrics
        self._clock = clock
        self._lock = asyncio.Lock()
        self._read_at: float | None = None
        self._answer = WELL

    async def check(self) -> str:
        """Return "well", or why the store cannot be read."""
        await self.refresh()
        return self._answer

    async def refresh(self) -> None:
        """Read the backlog unless it was read just now. Where that fails, the metrics keep their values."""
        async with self._lock:
            if self._read_at is not None and self._clock() - self._read_at < BACKLOG_SECONDS:
                return
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    backlog = await self._jobs.backlog()
            except StoreUnavailable as error:
                self._answer = str(error)
            except TimeoutError:
                self._metrics.store.failures.inc()
                self._answer = f"the queue has not answered within {PATIENCE_SECONDS:g} s"
            else:
                self._answer = WELL
                of_store = self._metrics.store
                of_store.waiting.set(backlog.waiting)
                of_store.paused.set(backlog.paused)
                of_store.running.set(backlog.running)
                of_store.undelivered.set(backlog.undelivered)
                of_store.oldest_undelivered.set(backlog.oldest_seconds)
            self._read_at = self._clock()
