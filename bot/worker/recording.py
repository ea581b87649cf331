"""The ends of images: pictures kept, and what became of each image recorded in the store."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

from bot.errors import StaleLease, StoreUnavailable
from bot.files import Artifacts, Files
from bot.jobs import Claim, Job, Notes, Showing
from bot.metrics import WorkerMetrics
from bot.retries import while_unavailable
from bot.store.known import NO_HASHES, Hashes
from bot.store.run_times import Bench
from bot.store.store import Store
from bot.threads import Threads
from bot.worker.judging import Judgement
from bot.worker.known import Found
from bot.worker.repaint import PNG, metadata_of
from sdjax_engine.images import encode_png
from sdjax_engine.request import Image

log = logging.getLogger(__name__)

T = TypeVar("T")


class Recording:
    """Records the ends of images; a verb of the store or the disk is retried for about `retry_seconds`."""

    def __init__(
        self, store: Store, artifacts: Artifacts, metrics: WorkerMetrics, *, retry_seconds: float
    ) -> None:
        self._leases = store.leases
        self._files = Files(store.files, artifacts)
        self._metrics = metrics
        self._retry_seconds = retry_seconds
        self._threads = Threads("pictures", most=os.cpu_count() or 1)

    async def painted(
        self,
        claim: Claim,
        image: Image,
        *,
        judged: Judgement,
        known: Found,
        start_hash: int | None,
        bench: Bench,
    ) -> None:
        """Keep the picture, and record how it is shown. A withheld picture is not kept, only its scores."""
        showing = Showing.WITHHOLD if known.blocked else judged.showing
        withheld = showing is Showing.WITHHOLD
        artifact = None if withheld else await self._keep(claim, image)
        notes = Notes(
            prompt=image.prompt,
            negative_prompt=image.negative_prompt,
            safety=image.safety,
            classified=image.classified,
            level=judged.level,
            known=known.blocked,
        )
        hashes = NO_HASHES if withheld else Hashes(result=known.hash, start=start_hash)

        def complete() -> Awaitable[Job]:
            return self._leases.complete(
                claim,
                artifact=artifact,
                seconds=image.seconds,
                notes=notes,
                showing=showing,
                hashes=hashes,
                bench=bench,
            )

        await self._record(complete, "withheld" if withheld else "painted")

    async def failed(self, claim: Claim, failure: str) -> None:
        """Record why an image failed."""
        await self._record(lambda: self._leases.fail(claim, failure=failure), "failed")

    async def abandoned(self, claim: Claim) -> None:
        """Give an image back that may be the cause of what broke the engine: the attempt counts."""
        await self._record(lambda: self._leases.abandon(claim), "taken_back")

    async def give_back(self, claim: Claim, *, within: float | None = None) -> None:
        """Give an image back to the queue, within so many seconds if any."""
        try:
            async with asyncio.timeout(within):
                await self._record(lambda: self._leases.give_back(claim), "given_back")
        except TimeoutError:
            log.error("the image could not be given back in time: it waits until its lease expires")

    async def _keep(self, claim: Claim, image: Image) -> str:
        extra = metadata_of(claim.job_id)
        png = await self._threads.run(encode_png, image.pixels, image.request, extra=extra)
        return await self._persistently(lambda: self._files.keep(png, PNG))

    async def _record(self, verb: Callable[[], Awaitable[object]], event: str) -> None:
        """Record the end of an image, and count it as `event`. A lost image is only counted."""
        try:
            await self._persistently(verb)
            self._metrics.images.labels(event).inc()
        except StaleLease as error:
            self._metrics.images.labels("lost").inc()
            log.info("%s", error)
        except StoreUnavailable as error:
            log.error("the end of the image could not be recorded, so it is painted again: %s", error)

    async def _persistently(self, verb: Callable[[], Awaitable[T]]) -> T:
        """Retry `verb` for about as long as a lease while the disk or the database is unavailable."""
        return await while_unavailable(self._retry_seconds, verb)
