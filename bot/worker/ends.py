"""Records the ends of images in the queue, each with the devices' time that it took."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from bot.errors import StaleLease, StoreUnavailable
from bot.metrics import WorkerMetrics
from bot.retries import while_unavailable
from bot.store import Store
from bot.store.device_time import Spent
from bot.worker.held_image import HeldImage

log = logging.getLogger(__name__)

T = TypeVar("T")


class Ends:
    """Records ends for a worker of the class `accelerator`, and counts them.

    A verb is retried for about `retry_seconds` while the disk or the database is unavailable.
    """

    def __init__(
        self, store: Store, metrics: WorkerMetrics, *, retry_seconds: float, accelerator: str
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._retry_seconds = retry_seconds
        self._accelerator = accelerator

    async def record(self, held: HeldImage, verb: Callable[[Spent], Awaitable[object]], event: str) -> None:
        """Record the end of an image by `verb`, and count it as `event`; of a lost image only its time."""
        spent = self._spent(held)
        try:
            await self.persistently(lambda: verb(spent))
        except StaleLease as error:
            self._metrics.images.labels("lost").inc()
            log.info("%s", error)
            await self.lost(held)
        except StoreUnavailable as error:
            log.error("the end of the image could not be recorded, so it is painted again: %s", error)
        else:
            self._metrics.images.labels(event).inc()
            self._count(held, spent)

    async def lost(self, held: HeldImage) -> None:
        """Record the time of an image that was cancelled, or that another worker has."""
        spent = self._spent(held)
        try:
            is_new = await self.persistently(lambda: self._store.device_time.add(held.claim, spent))
        except StoreUnavailable as error:
            log.error("%.1f s of the devices' time are not recorded: %s", spent.seconds, error)
        else:
            if is_new:
                self._count(held, spent)

    async def persistently(self, verb: Callable[[], Awaitable[T]]) -> T:
        """Retry `verb` while the disk or the database is unavailable."""
        return await while_unavailable(self._retry_seconds, verb)

    def _spent(self, held: HeldImage) -> Spent:
        return Spent(accelerator=self._accelerator, seconds=held.device_seconds)

    def _count(self, held: HeldImage, spent: Spent) -> None:
        self._metrics.device_seconds.labels(held.claim.request.model).inc(spent.seconds)
        held.device_seconds = 0.0  # a later end of the same image adds nothing
