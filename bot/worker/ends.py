"""The ends of images: recorded in the queue, counted, logged, and recorded in the trace."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from bot.domain.errors import (
    LostForGood,
    MissingArtifact,
    ResultsUnavailable,
    StaleLease,
    StartRefused,
    StoreUnavailable,
)
from bot.domain.time_units import HOUR_SECONDS
from bot.process.retries import while_unavailable
from bot.store import Store
from bot.store.rows.device_time import Spent
from bot.telemetry.metrics import WorkerMetrics
from bot.telemetry.tracing import Attributes, Stage, Tracing
from bot.worker.held_image import HeldImage
from sdjax_engine.errors import InvalidRequest


def failure_of(error: Exception) -> str:
    """Return the failure's name, a key of `bot.delivery.result.FAILURES`.

    An unsuited sampler is followed by the samplers that suit: `unsuited_sampler: ddim, pndm`, another refused
    setting by the mistake as JSON: `invalid_request: {"problem": "steps", "value": 60, "limit": 50}`.
    """
    if isinstance(error, InvalidRequest) and error.problem == "unsuited_sampler":
        return f"{error.problem}: {error.details['choices']}"
    if isinstance(error, InvalidRequest) and error.problem in ("lora", "no_loras"):
        return "lora_not_offered"
    if isinstance(error, InvalidRequest):
        said = json.dumps({"problem": error.problem, **error.details}, default=str, ensure_ascii=False)
        return f"invalid_request: {said}"
    if isinstance(error, LostForGood | StartRefused):
        return error.failure
    if isinstance(error, MissingArtifact):
        return "start_missing"
    if isinstance(error, ResultsUnavailable):
        return "not_kept"
    return "painting_failed"


log = logging.getLogger(__name__)

T = TypeVar("T")

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
    """Records ends for a worker of the class `accelerator`, and counts them.

    A verb is retried for about `retry_seconds` while the disk or the database is unavailable.
    """

    def __init__(
        self,
        store: Store,
        metrics: WorkerMetrics,
        tracing: Tracing,
        *,
        retry_seconds: float,
        accelerator: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._tracing = tracing
        self._retry_seconds = retry_seconds
        self._accelerator = accelerator
        self._clock = clock
        self._painted: deque[float] = deque()  # when, of the last hour

    @property
    def hourly(self) -> int:
        """How many pictures were painted in the last hour."""
        while self._painted and self._painted[0] < self._clock() - HOUR_SECONDS:
            self._painted.popleft()
        return len(self._painted)

    async def record(self, held: HeldImage, verb: Callable[[Spent], Awaitable[object]], event: str) -> None:
        """Record an image's end by `verb`, and count it as `event`; for a lost image record only its time.

        `report` counts a lost image, because a heartbeat may have noticed the loss before.
        """
        held.stages.enter("record")
        spent = self._spent(held)
        try:
            await self.persistently(lambda: verb(spent))
        except StaleLease as error:
            log.info("%s", error)
            await self.lost(held)
        except StoreUnavailable as error:
            held.end = "unrecorded"
            log.error("the end of the image could not be recorded, so it is painted again: %s", error)
        else:
            held.end = event
            self._metrics.images.labels(event).inc()
            if event == "painted":
                self._painted.append(self._clock())
            self._count(held, spent)

    async def lost(self, held: HeldImage) -> None:
        """Record the time of an image that was cancelled, or that another worker has."""
        held.end = "lost"
        spent = self._spent(held)
        try:
            is_new = await self.persistently(lambda: self._store.device_time.add(held.claim, spent))
        except StoreUnavailable:  # the outage's line says why; naming the error here would drop this line
            log.error("%.1f s of the devices' time are not recorded", spent.seconds)
        else:
            if is_new:
                self._count(held, spent)

    async def give_back(self, held: HeldImage, *, seconds: float | None) -> None:
        """Give the image back to the queue, unless it is lost, within `seconds`; None sets no limit."""
        claim, give_back = held.claim, self._store.leases.give_back
        try:
            async with asyncio.timeout(seconds):
                if held.lost:
                    await self.lost(held)
                else:
                    await self.record(held, lambda spent: give_back(claim, spent=spent), "given_back")
        except TimeoutError:
            held.end = "unrecorded"
            log.error("the image could not be given back in time: it waits until its lease expires")

    async def persistently(self, verb: Callable[[], Awaitable[T]]) -> T:
        """Retry `verb` while the disk or the database is unavailable."""
        return await while_unavailable(self._retry_seconds, verb)

    def report(self, held: HeldImage, attributes: Attributes) -> None:
        """Log how an image has ended and how long each stage took, and record its spans; count a lost one.

        Call it once for each image. `attributes` are added to those of both spans.
        """
        held.stages.end()
        if held.end == "lost":
            self._metrics.images.labels("lost").inc()
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
            work=Stage(name="queue", began=claim.enqueued_at, ended=claim.enqueued_at + waited),
            attributes={**of_image, **attributes},
        )
        self._tracing.record(
            "paint",
            parent=claim.traceparent,
            work=held.stages,
            attributes={**of_image, **attributes, "steps": claim.steps, "end": held.end},
            failed=held.end == "failed",
        )

    def _spent(self, held: HeldImage) -> Spent:
        return Spent(accelerator=self._accelerator, seconds=held.device_seconds)

    def _count(self, held: HeldImage, spent: Spent) -> None:
        self._metrics.device_seconds.labels(held.claim.request.model).inc(spent.seconds)
        held.device_seconds = 0.0  # a later end of the same image adds nothing
