"""The worker's loop: claim, paint, encode, keep and complete images, with heartbeats and a drain."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from bot.domain.errors import ResultsUnavailable, StoreUnavailable
from bot.domain.jobs import BATCHES_AHEAD, with_pictures
from bot.files import Artifacts
from bot.moderation.pictures import PictureRules
from bot.process.memory import trim_regularly
from bot.process.retries import keep_running
from bot.process.threads import in_uninterruptible_thread
from bot.store.rows.device_time import WorkerClass
from bot.store.store import Store
from bot.telemetry.metrics import WELL, Metrics, WorkerMetrics
from bot.telemetry.tracing import NO_TRACING, Attributes, Tracing, about
from bot.worker.ends import Ends, failure_of
from bot.worker.given_pictures import GivenPictures
from bot.worker.heartbeats import Heartbeats, seats_of
from bot.worker.held_image import HeldImage
from bot.worker.judging import Judging, KnownPictures
from bot.worker.model_use import ModelUse
from bot.worker.preview_files import PreviewFiles
from bot.worker.repaint import Repaint
from bot.worker.results import Results
from bot.worker.unoffered import GRACE_SECONDS, fail_unoffered
from sdjax_engine.engine import Engine
from sdjax_engine.errors import EngineClosed, EngineError
from sdjax_engine.request import Image, Lane, Request, Trouble
from sdjax_engine.startup.registry import Change

log = logging.getLogger(__name__)

POLL_SECONDS = 0.5
MOST_UNJUDGED = 3
UNKEPT_SECONDS = 15.0  # between two looks whether the place of pictures takes files again
DRAIN_SECONDS = 60.0
GIVE_BACK_SECONDS = 5.0  # for each image while the worker drains


class Worker:
    """Paints the images of `store` with `engine`, and keeps the pictures in `artifacts`.

    A lease lasts `lease_seconds` without a heartbeat. After `drain`, images under way have `drain_seconds`.
    An image waits `grace_seconds` for a worker that offers its lane. `rules`, by model, say how
    pictures are judged and shown. Run times are measured for the class `accelerator`. `tracing` records the
    spans of images.
    """

    def __init__(
        self,
        engine: Engine,
        store: Store,
        artifacts: Artifacts,
        *,
        name: str,
        lease_seconds: float,
        drain_seconds: float = DRAIN_SECONDS,
        grace_seconds: float = GRACE_SECONDS,
        rules: Mapping[str, PictureRules] = MappingProxyType({}),
        accelerator: str = "cpu",
        metrics: WorkerMetrics | None = None,
        tracing: Tracing = NO_TRACING,
    ) -> None:
        self.engine = engine
        self._store = store
        self._name = name
        self._lease_seconds = lease_seconds
        self._drain_seconds = drain_seconds
        self._grace_seconds = grace_seconds
        self._accelerator = accelerator
        self._models = ModelUse()
        self._judging = Judging(engine, rules)
        self._known = KnownPictures(store.known, retry_seconds=lease_seconds)
        self._given = GivenPictures()
        self._repaint = Repaint(
            engine,
            store,
            artifacts,
            models=self._models,
            given=self._given,
            retry_seconds=lease_seconds,
            accelerator=accelerator,
        )
        self._metrics = metrics or Metrics().worker
        self._ends = Ends(store, self._metrics, tracing, retry_seconds=lease_seconds, accelerator=accelerator)
        self._results = Results(store, artifacts, judging=self._judging, known=self._known, ends=self._ends)
        self._held: dict[asyncio.Task[None], HeldImage] = {}
        self._heartbeats = Heartbeats(
            engine,
            store,
            self._held.values(),
            name=name,
            lease_seconds=lease_seconds,
            accelerator=accelerator,
            previews=PreviewFiles(self._judging.may_cover, self._metrics),
            metrics=self._metrics,
            ends=self._ends,
        )
        self._unjudged: Counter[int] = Counter()  # by image: how often StoreUnavailable ended an attempt
        self._unkept = ""  # why the last picture could not be kept
        self._claims_at = -math.inf
        self._draining = asyncio.Event()
        self._engine_closed: EngineClosed | None = None

    async def run(self) -> None:
        """Paint images until `drain`. Cancelling this gives every held image back at once.

        No other living worker may have this worker's name: the images that it held before a restart are
        taken back first. Raises EngineClosed when the engine stopped by itself.
        """
        self._metrics.claimed.set_function(lambda: len(self._held))
        await self._heartbeats.begin()
        side_work: dict[str, Callable[[], Awaitable[None]]] = {
            "heartbeat": self._heartbeats.run,
            "check for unoffered images": self._fail_unoffered,
            "repaint of lost files": self._repaint.run,
            "trim of the heap": trim_regularly,
        }
        side_tasks = [
            asyncio.create_task(keep_running(work, name), name=f"worker {name}")
            for name, work in side_work.items()
        ]
        draining = asyncio.create_task(self._draining.wait(), name="worker drain")
        try:
            await keep_running(
                lambda: self._feed_until(draining),
                "claim of images",
                pause=lambda seconds: asyncio.wait({draining}, timeout=seconds),
            )
            await self._finish()
        finally:
            await asyncio.sleep(0)  # as in `_finish`
            await _cancelled(list(self._held))
            await _cancelled([*side_tasks, draining])
        if self._engine_closed is not None:
            raise self._engine_closed

    async def change(
        self, change: Change, *, rules: Mapping[str, PictureRules], drain_seconds: float
    ) -> Mapping[str, EngineError]:
        """Paint with other models, once the images under way of those that leave have ended.

        `change` is from the engine's `read_models`; the other arguments are those of the worker. Returns why
        models cannot be used, by name. Raises EngineClosed and StoreUnavailable.
        """
        self._drain_seconds = drain_seconds
        before = frozenset(self.engine.lanes)
        async with self._models.without(change.leaving):
            failures = await in_uninterruptible_thread(lambda: self.engine.change_models(change))
            self._models.gone = (self._models.gone | before) - frozenset(self.engine.lanes)
            self._judging.rules = rules
        await self._heartbeats.announce()
        return failures

    async def _fail_unoffered(self) -> None:
        await fail_unoffered(self._store.offers, grace_seconds=self._grace_seconds)

    def drain(self) -> None:
        """Claim no more images, so that `run` ends within `drain_seconds` plus a few seconds.

        Images that the devices have begun are finished if the time suffices. All others are given back.
        Meanwhile the engine compiles only the lanes that an image waits for.
        """
        self._draining.set()
        self.engine.prepare_no_more()

    async def _finish(self) -> None:
        """Offer no more lanes, give back the images that have no seat yet, and wait for the others."""
        try:
            await self._heartbeats.withdraw()
        except StoreUnavailable as error:
            log.warning("people are told of this worker's seats for some seconds: %s", error)
        await asyncio.sleep(0)  # a task that is cancelled before its first step gives nothing back
        for task, held in self._held.items():
            ended = held.future is not None and held.future.done()
            if not held.seated and not ended:
                task.cancel()
        if self._held:
            _, late = await asyncio.wait(list(self._held), timeout=self._drain_seconds)
            if late:
                log.warning("%d images are given back: they were not finished in time", len(late))

    async def health(self) -> str:
        """Return "well", or why the worker does not paint or sends no heartbeat."""
        silence = self._heartbeats.silence
        if silence > self._lease_seconds / 2:
            return f"no heartbeat for {silence:.0f} s"
        if self._unkept:
            return self._unkept
        return WELL if self.engine.ready_lanes else "no lane is ready"

    async def _feed_until(self, draining: asyncio.Task[Literal[True]]) -> None:
        """Feed the engine until a drain begins."""
        while not self._draining.is_set():
            await self._feed(draining)

    async def _feed(self, draining: asyncio.Task[Literal[True]]) -> None:
        """Claim images for the free room of each lane; without any, wait for work or room."""
        room = self._room()
        if any(room.values()):
            claiming = asyncio.create_task(self._claim(room), name="worker claim")
            try:
                if await asyncio.shield(claiming):
                    return
            except StoreUnavailable as error:
                log.error("no images can be claimed: %s", error)
                await asyncio.sleep(POLL_SECONDS)
                return
            except asyncio.CancelledError:  # what the queue has leased must be held, so that it is given back
                try:
                    await asyncio.wait([claiming], timeout=GIVE_BACK_SECONDS)
                finally:
                    await _cancelled([claiming])
                raise
        await self._wait(draining)

    async def _claim(self, room: Mapping[Lane, int]) -> int:
        """Claim up to `room` images of each lane, begin to paint them, and return their number."""
        claims = await self._store.leases.claim(self._name, limit=room, ttl=self._lease_seconds)
        self._metrics.images.labels("claimed").inc(len(claims))
        for claim in claims:
            held = HeldImage(claim=claim, on_trouble=self._on_trouble)
            task = asyncio.create_task(self._paint(held), name=f"image {claim.image_id}")
            self._held[task] = held
            task.add_done_callback(self._forget)
        return len(claims)

    def _room(self) -> dict[Lane, int]:
        """Return how many more images each ready lane can take; lanes of models that leave take none.

        Lanes become ready one after the other, and the seats of a lane may become fewer. While pictures
        cannot be kept, each lane takes one at a time, to see whether they can be again.
        """
        held = Counter(image.lane for image in self._held.values())
        if self._unkept and (self._held or time.monotonic() < self._claims_at):
            return {}
        most = 1 if self._unkept else math.inf
        return {
            lane: int(min(most, max(0, BATCHES_AHEAD * seats - held[lane])))
            for lane, seats in seats_of(self.engine, self.engine.ready_lanes).items()
            if lane.model not in self._models.leaving
        }

    async def _wait(self, draining: asyncio.Task[Literal[True]]) -> None:
        """Wait until work may be waiting, an image has ended, a drain begins, or POLL_SECONDS are over."""
        work = asyncio.create_task(self._store.wake_ups.work.wait(POLL_SECONDS), name="worker wait for work")
        try:
            await asyncio.wait({work, draining, *self._held}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancelled([work])

    def _forget(self, task: asyncio.Task[None]) -> None:
        del self._held[task]

    async def _paint(self, held: HeldImage) -> None:
        """Paint and record one image. Its errors affect no other image.

        Cancelling this gives the image back, unless its end has been recorded.
        """
        claim, lane = held.claim, held.claim.request.lane
        told: Attributes = {
            "worker": self._name,
            "accelerator": self._accelerator,
            "model": lane.model,
            "lane": str(lane),
            "seats": seats_of(self.engine, [lane]).get(lane, 0),
        }
        with about(claim.job_id, image=claim.image_id, lane=str(lane), traceparent=claim.traceparent):
            try:
                await self._paint_and_record(held)
            except asyncio.CancelledError:
                if held.future is not None:
                    self.engine.cancel(held.future)
                await asyncio.shield(self._give_back(held))
                raise
            finally:
                self._ends.report(held, told)

    async def _paint_and_record(self, held: HeldImage) -> None:
        claim = held.claim
        try:
            held.stages.enter("prepare")
            request = await self._complete(held)
            async with self._models.of(request.model):
                if self._models.gone.isdisjoint(request.lanes):
                    await self._paint_with(held, request)
                else:
                    await self._give_back(held)
        except EngineClosed as error:
            self._engine_closed = self._engine_closed or error
            self._draining.set()
            if held.begun:  # it may be the cause: count the attempt, so that it cannot break engines for ever
                abandon = self._store.leases.abandon
                await self._ends.record(held, lambda spent: abandon(claim, spent=spent), "taken_back")
            else:
                await self._give_back(held)
        except ResultsUnavailable as error:
            log.error("image %d is given back: %s", claim.image_id, error)
            self._unkept, self._claims_at = str(error), time.monotonic() + UNKEPT_SECONDS
            await self._give_back(held)
        except StoreUnavailable as error:
            self._unjudged[claim.image_id] += 1
            if self._unjudged[claim.image_id] < MOST_UNJUDGED:
                log.error("image %d is given back: %s", claim.image_id, error)
                await self._give_back(held)
            else:  # not an outage: the same read fails each time, and a retry would waste the devices
                del self._unjudged[claim.image_id]
                await self._fail(held, error)
        except Exception as error:
            log.exception("image %d failed (%s)", claim.image_id, failure_of(error))
            await self._fail(held, error)

    async def _fail(self, held: HeldImage, error: Exception) -> None:
        claim, failure, fail = held.claim, failure_of(error), self._store.leases.fail
        await self._ends.record(held, lambda spent: fail(claim, failure=failure, spent=spent), "failed")

    async def _paint_with(self, held: HeldImage, request: Request) -> None:
        """Paint and record an image; the caller keeps its model from leaving meanwhile."""
        image = await self._painted(held, request)
        if image is None:
            return
        held.device_seconds = image.device_seconds
        if held.lost:
            await self._ends.lost(held)
            return
        self._metrics.image_seconds.observe(image.seconds)
        worker_class = WorkerClass(accelerator=self._accelerator, seats=self.engine.capacity(request.lane))
        await self._results.record(held, image, worker_class)
        self._unkept = ""
        self._unjudged.pop(held.claim.image_id, None)

    async def _painted(self, held: HeldImage, request: Request) -> Image | None:
        """Return the engine's picture, or None for a cancelled one, which is then given back unless lost."""
        claim = held.claim
        start = await self._given.start(request, claim.given)
        held.given_hashes = await self._known.check_given(claim, request)
        held.most_open = await self._judging.judge_given(
            claim, await self._given.pixels(request, claim.given)
        )
        if held.lost:
            held.end = "lost"
            return None
        held.stages.enter("admit")
        held.future = self.engine.submit(request, start=start, on_progress=held.on_progress, previews=True)
        finished = asyncio.wrap_future(held.future)
        await asyncio.wait([finished])
        if not finished.cancelled():
            return finished.result()
        await self._give_back(held)
        return None

    async def _complete(self, held: HeldImage) -> Request:
        """Return the request with its given pictures, which are repainted if they are lost.

        Raises like `Repaint.given`.
        """
        claim = held.claim
        pictures = await self._repaint.given(claim.job_id, claim.given, begun=held.on_start)
        return with_pictures(claim.request, pictures)

    async def _give_back(self, held: HeldImage) -> None:
        seconds = GIVE_BACK_SECONDS if self._draining.is_set() else None
        await self._ends.give_back(held, seconds=seconds)

    def _on_trouble(self, trouble: Trouble) -> None:
        self._metrics.troubles.labels(trouble).inc()


async def _cancelled(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
