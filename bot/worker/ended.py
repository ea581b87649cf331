"""The ends of images: recorded in the queue, counted, logged, and recorded in the trace."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from bot.errors import StaleLease, StoreUnavailable
from bot.metrics import WorkerMetrics
from bot.retries import while_unavailable
from bot.store.leases import Leases
from bot.tracing import Attributes, Tracing
from bot.worker.held_image import HeldImage

log = logging.getLogger(__name__)

SENTENCES: Final = {
    "painted": "is painted",
    "withheld": "is painted, and withheld",
    "failed": "has failed",
    "given_back": "is given back",
    "taken_back": "is taken back",
    "lost": "belongs to another worker, or is cancelled",
    "unrecorded": "is painted again, because its end could not be recorded",
}


class Ends:
    """Records how images end, and retries for `retry_seconds` while the queue is unavailable."""

    def __init__(
        self, leases: Leases, metrics: WorkerMetrics, tracing: Tracing, *, retry_seconds: float
    ) -> None:
        self._leases = leases
        self._metrics = metrics
        self._tracing = tracing
        self._retry_seconds = retry_seconds

    async def record(self, held: HeldImage, verb: Callable[[], Awaitable[object]], event: str) -> None:
        """Record the end of an image, and count it as `event`. A lost image is only counted."""
        held.stages.enter("record")
        try:
            await while_unavailable(self._retry_seconds, verb)
            held.end = event
            self._metrics.images.labels(event).inc()
        except StaleLease as error:
            self._metrics.images.labels("lost").inc()
            log.info("%s", error)
        except StoreUnavailable as error:
            held.end = "unrecorded"
            log.error("the end of the image could not be recorded, so it is painted again: %s", error)

    async def give_back(self, held: HeldImage, *, seconds: float | None) -> None:
        """Give the image back to the queue, in so many seconds at most."""
        try:
            async with asyncio.timeout(seconds):
                await self.record(held, lambda: self._leases.give_back(held.claim), "given_back")
        except TimeoutError:
            log.error("the image could not be given back in time: it waits until its lease expires")

    def report(self, held: HeldImage, attributes: Attributes) -> None:
        """Log how an image has ended and how long each stage took, and record its spans.

        `attributes` are added to those of both spans.
        """
        held.stages.end()
        claim, durations = held.claim, held.stages.durations
        waited = max(0.0, claim.claimed_at - claim.enqueued_at)
        log.info(
            "image %d %s, after %.2f s",
            *(claim.image_id, SENTENCES[held.end], durations["total"]),
            extra={"durations": {"queue": round(waited, 3), **durations}},
        )
        of_image: Attributes = {"job": claim.job_id, "image": claim.image_id, "attempt": claim.fencing_token}
        self._tracing.record(
            "queue",
            parent=claim.traceparent,
            began=claim.enqueued_at,
            ended=claim.enqueued_at + waited,
            attributes={**of_image, **attributes},
        )
        self._tracing.record_stages(
            "paint",
            parent=claim.traceparent,
            stages=held.stages,
            attributes={**of_image, **attributes, "steps": claim.steps, "end": held.end},
            failed=held.end == "failed",
        )
