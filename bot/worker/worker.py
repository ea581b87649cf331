"""The worker's loop: claim, paint, encode, keep, complete; with heartbeats, and a drain at the end."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from bot.album import keep
from bot.artifacts import Artifacts
from bot.errors import StaleLease, StoreUnavailable
from bot.heap import trim_regularly
from bot.jobs import BATCHES_AHEAD, Claim, Job, Notes, SafetyPolicy, Showing
from bot.log import about
from bot.metrics import WELL, Metrics, WorkerMetrics
from bot.persistence import persistently
from bot.store.store import Store
from bot.threads import Threads
from bot.worker.failures import failure_of
from bot.worker.repaint import PNG, Repaint, metadata_of
from bot.worker.starts import Starts
from bot.worker.unoffered import GRACE_SECONDS, watch
from sdjax_engine.engine import Engine
from sdjax_engine.images import encode_png
from sdjax_engine.request import EngineClosed, Image, Lane, Progress, Request, Trouble

log = logging.getLogger(__name__)

T = TypeVar("T")

POLL_SECONDS = 0.5
DRAIN_SECONDS = 60.0
GIVING_BACK_SECONDS = 5.0  # at a stop
HEARTBEAT_SECONDS = 1.0  # also how fresh the step is that people see
EXPIRY_SECONDS = 5.0


@dataclass(kw_only=True, eq=False)
class _Painting:
    """One claimed image on its way; `lost` once the lease is someone else's or the job is cancelled.

    `trouble` is why it began anew, until it is further than `furthest`, where it was then.
    """

    claim: Claim
    on_trouble: Callable[[Trouble], None] = lambda _trouble: None
    future: Future[Image] | None = None
    step: int = 0
    furthest: int = 0
    trouble: Trouble | None = None
    lost: bool = False
    seated: bool = False
    start_begun: bool = False

    def on_start(self) -> None:
        """Called on the engine's thread: a picture to start from is being painted again."""
        self.start_begun = True

    def on_progress(self, progress: Progress) -> None:
        """Called on the engine's thread: plain assignments, read by the next heartbeat."""
        self.seated = True
        step = round(progress.step / progress.steps * self.claim.steps)
        if progress.trouble is not None:
            self.furthest = max(self.furthest, self.step)
            self.trouble = progress.trouble
            self.on_trouble(progress.trouble)
        elif step > self.furthest:
            self.trouble = None
        self.step = step

    @property
    def begun(self) -> bool:
        """Whether the devices have been at work for it, or for a picture that it starts from."""
        return self.seated or self.start_begun


class Worker:
    """Feeds `engine` from `store` and puts the pictures into `artifacts`.

    `lease_seconds` is how long an image stays ours without a heartbeat, `drain_seconds` how long images that
    are being painted may take after a stop was asked for, `grace_seconds` how long one waits for a lane that
    no worker offers. `policies`, by model, say how flagged pictures are shown.
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
        policies: Mapping[str, SafetyPolicy] = MappingProxyType({}),
        metrics: WorkerMetrics | None = None,
    ) -> None:
        self._engine = engine
        self._store = store
        self._artifacts = artifacts
        self._name = name
        self._lease_seconds = lease_seconds
        self._drain_seconds = drain_seconds
        self._grace_seconds = grace_seconds
        self._policies = policies
        self._starts = Starts()
        self._repaint = Repaint(engine, store, artifacts, starts=self._starts, retry_seconds=lease_seconds)
        self._metrics = metrics or Metrics().worker
        self._threads = Threads("pictures", most=os.cpu_count() or 1)
        self._paintings: dict[asyncio.Task[None], _Painting] = {}
        self._draining = asyncio.Event()
        self._engine_closed: EngineClosed | None = None
        self._beat_at = time.monotonic()

    async def run(self) -> None:
        """Work until `drain`; cancelling it gives everything back at once.

        `name` must be no other living worker's: what it held in an earlier life is taken back first.
        Raises `EngineClosed` when the engine stopped by itself.
        """
        self._metrics.held.set_function(lambda: len(self._paintings))
        self._taken_back(await self._store.leases.recover(self._name))
        await self._announce()
        heart = asyncio.create_task(self._beat(), name="worker heartbeat")
        watching = asyncio.create_task(
            watch(self._store, grace_seconds=self._grace_seconds), name="worker watch"
        )
        repainting = asyncio.create_task(self._repaint.run(), name="worker repaint")
        trimming = asyncio.create_task(trim_regularly(), name="worker heap")
        draining = asyncio.create_task(self._draining.wait(), name="worker drain")
        try:
            while not self._draining.is_set():
                await self._feed(draining)
            await self._finish()
        finally:
            await asyncio.sleep(0)  # as in `_finish`
            await _cancelled(list(self._paintings))
            await _cancelled([heart, watching, repainting, trimming, draining])
        if self._engine_closed is not None:
            raise self._engine_closed

    def drain(self) -> None:
        """Claim nothing more, and let `run` end within `drain_seconds` and a few more.

        Images that are being painted are finished where the time is enough; all others are given back.
        """
        self._draining.set()

    async def _finish(self) -> None:
        """Give back what the devices have not begun, and wait for the rest; `run` gives back what is left."""
        await asyncio.sleep(0)  # a task that is cancelled before its first step gives nothing back
        for task, painting in self._paintings.items():
            ended = painting.future is not None and painting.future.done()
            if not painting.seated and not ended:
                task.cancel()
        if self._paintings:
            _, late = await asyncio.wait(list(self._paintings), timeout=self._drain_seconds)
            if late:
                log.warning("%d images are given back: they could not be finished in time", len(late))

    async def health(self) -> str:
        """Whether it paints and is heard of: "well", or what is wrong."""
        silence = time.monotonic() - self._beat_at
        if silence > self._lease_seconds / 2:
            return f"no heartbeat for {silence:.0f} s"
        return WELL if self._engine.ready_lanes else "no lane is ready"

    async def _feed(self, draining: asyncio.Task[Literal[True]]) -> None:
        """Claim for each lane what it has room for, then wait until there is work or room again."""
        room = self._room()
        claims: list[Claim] = []
        if any(room.values()):
            try:
                claims = await self._store.leases.claim(self._name, limit=room, ttl=self._lease_seconds)
            except StoreUnavailable as error:
                log.error("no work can be claimed: %s", error)
                await asyncio.sleep(POLL_SECONDS)
                return
        self._metrics.images.labels("claimed").inc(len(claims))
        for claim in claims:
            painting = _Painting(claim=claim, on_trouble=self._on_trouble)
            task = asyncio.create_task(self._paint(painting), name=f"image {claim.image_id}")
            self._paintings[task] = painting
            task.add_done_callback(self._forget)
        if not claims:
            await self._wait(draining)

    def _room(self) -> dict[Lane, int]:
        """For each lane that can be painted now, how many more images it can take.

        Asked anew each time: lanes get ready one after the other, and seats may become fewer.
        """
        held = Counter(painting.claim.request.lane for painting in self._paintings.values())
        return {
            lane: max(0, BATCHES_AHEAD * self._engine.capacity(lane) - held[lane])
            for lane in self._engine.ready_lanes
        }

    async def _wait(self, draining: asyncio.Task[Literal[True]]) -> None:
        """Return when work may be waiting, when an image has ended, at a drain, or after a while."""
        work = asyncio.create_task(self._store.wake_ups.work.wait(POLL_SECONDS), name="worker waits for work")
        try:
            await asyncio.wait({work, draining, *self._paintings}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancelled([work])

    def _forget(self, task: asyncio.Task[None]) -> None:
        del self._paintings[task]

    async def _paint(self, painting: _Painting) -> None:
        """One image from claim to record; whatever goes wrong is this image's alone.

        Cancelling it gives the image back, unless what became of it has been recorded.
        """
        with about(painting.claim.job_id):
            try:
                await self._paint_and_record(painting)
            except asyncio.CancelledError:
                if painting.future is not None:
                    self._engine.cancel(painting.future)
                await asyncio.shield(self._give_back(painting.claim))
                raise

    async def _paint_and_record(self, painting: _Painting) -> None:
        claim = painting.claim
        try:
            image = await self._painted(painting)
            if image is None or painting.lost:
                return
            self._metrics.image_seconds.observe(image.seconds)
            await self._keep_and_record(claim, image)
        except EngineClosed as error:
            self._engine_closed = self._engine_closed or error
            self._draining.set()
            if painting.begun:  # it may be the cause: nothing may break an engine again and again
                await self._record(lambda: self._store.leases.abandon(claim), "taken_back")
            else:
                await self._give_back(claim)
        except Exception as error:
            failure = failure_of(error)
            log.exception("image %d failed (%s)", claim.image_id, failure)
            await self._record(lambda: self._store.leases.fail(claim, failure=failure), "failed")

    async def _painted(self, painting: _Painting) -> Image | None:
        """The engine's picture; None when it was cancelled there, having been given back if it is ours."""
        claim = painting.claim
        request = await self._complete(painting)
        start = await self._starts.fitted(request, claim.init_image, claim.mask_image)
        if painting.lost:
            return None
        painting.future = self._engine.submit(request, start=start, on_progress=painting.on_progress)
        finished = asyncio.wrap_future(painting.future)
        await asyncio.wait([finished])
        if not finished.cancelled():
            return finished.result()
        if not painting.lost:
            await self._give_back(claim)
        return None

    async def _complete(self, painting: _Painting) -> Request:
        """The request with the pictures it starts from, painted again where they are gone.

        Raises MissingArtifact without them.
        """
        claim = painting.claim
        names = (claim.init_image, claim.mask_image)
        start, mask = await self._repaint.files(names, begun=painting.on_start)
        return replace(claim.request, init_image=start, mask_image=mask)

    async def _keep_and_record(self, claim: Claim, image: Image) -> None:
        """Keep the picture as the policy of its model says; of one that is withheld only the scores."""
        policy = self._policies.get(image.request.model, SafetyPolicy())
        showing = policy.showing(image.safety, age_restricted=claim.age_restricted)
        withheld = showing is Showing.WITHHOLD
        artifact = None if withheld else await self._keep(claim, image)
        notes = Notes(prompt=image.prompt, negative_prompt=image.negative_prompt, safety=image.safety)

        def complete() -> Awaitable[Job]:
            return self._store.leases.complete(
                claim, artifact=artifact, seconds=image.seconds, notes=notes, showing=showing
            )

        await self._record(complete, "withheld" if withheld else "painted")

    async def _keep(self, claim: Claim, image: Image) -> str:
        extra = metadata_of(claim.job_id)
        png = await self._threads.run(encode_png, image.pixels, image.request, extra=extra)
        return await self._persistently(lambda: keep(self._store, self._artifacts, png, PNG))

    async def _record(self, verb: Callable[[], Awaitable[object]], event: str) -> None:
        """Tell the store what became of an image, unless it is not ours any more; count it as `event`."""
        try:
            await self._persistently(verb)
            self._metrics.images.labels(event).inc()
        except StaleLease as error:
            self._metrics.images.labels("lost").inc()
            log.info("%s", error)
        except StoreUnavailable as error:
            log.error("what became of the image could not be recorded, so it is painted again: %s", error)

    async def _persistently(self, verb: Callable[[], Awaitable[T]]) -> T:
        """Try again and again, for about as long as a lease, what the disk or the database refuses."""
        return await persistently(verb, seconds=self._lease_seconds)

    async def _give_back(self, claim: Claim) -> None:
        """Put the image back to its place; at a stop there is little time for that."""
        seconds = GIVING_BACK_SECONDS if self._draining.is_set() else None
        try:
            async with asyncio.timeout(seconds):
                await self._record(lambda: self._store.leases.give_back(claim), "given_back")
        except TimeoutError:
            log.error("the image could not be given back in time: it waits until its lease runs out")

    async def _beat(self) -> None:
        """Keep the leases, tell the steps, stop what is no longer ours, and free what others lost."""
        passing = asyncio.get_running_loop().time
        announce_at = passing()
        while True:
            try:
                await self._heartbeat()  # first: whoever was stopped for long may still hold all of theirs
                if passing() >= announce_at:
                    announce_at = passing() + EXPIRY_SECONDS
                    await self._announce()
                    self._taken_back(await self._store.leases.expire(longest=2 * self._lease_seconds))
            except StoreUnavailable as error:
                log.error("no heartbeat: %s", error)
            except Exception:
                log.exception("no heartbeat, for a reason nobody foresaw")
            else:
                self._beat_at = time.monotonic()
            await self._store.wake_ups.cancellations.wait(HEARTBEAT_SECONDS)

    def _taken_back(self, count: int) -> None:
        if count:
            self._metrics.images.labels("taken_back").inc(count)
            log.warning("%d images were taken back: their worker was not heard of", count)

    def _on_trouble(self, trouble: Trouble) -> None:
        self._metrics.troubles.labels(trouble).inc()

    async def _announce(self) -> None:
        lanes = self._engine.lanes
        seats = {lane: self._engine.capacity(lane) for lane in lanes}
        self._metrics.seats.set(max(seats.values(), default=0))
        self._metrics.engine_restarts.set(self._engine.restarts)
        await self._store.offers.announce(self._name, lanes=lanes, seats=seats, ttl=self._lease_seconds)

    async def _heartbeat(self) -> None:
        paintings = {painting.claim.image_id: painting for painting in self._paintings.values()}
        if not paintings:
            return
        steps = {painting.claim: painting.step for painting in paintings.values()}
        begun = {painting.claim for painting in paintings.values() if painting.begun}
        troubles = {
            painting.claim: painting.trouble
            for painting in paintings.values()
            if painting.trouble is not None
        }
        told = self._store.leases.heartbeat(steps, ttl=self._lease_seconds, begun=begun, troubles=troubles)
        for image_id in await told:
            painting = paintings[image_id]
            painting.lost = True
            self._metrics.images.labels("lost").inc()
            if painting.future is not None:
                self._engine.cancel(painting.future)


async def _cancelled(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
