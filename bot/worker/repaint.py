"""Repaints files that are lost from the recipe of the image that each file belongs to.

A file's name is the hash of its content. Where programs that round differently repaint the picture, its
values may differ by 1 of 255, and its file has another name: jobs then name this file instead. The picture's
perceptual hash tells it from that of other weights.

A picture that was given with a lost one may be lost too. It is repainted first, and so on back to a file that
still exists. A lost upload cannot be repainted.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from typing import TypeVar
from weakref import WeakValueDictionary

from bot.domain.errors import BotError, LostForGood, MissingArtifact, StoreUnavailable
from bot.domain.file_states import LostFile, Painter
from bot.domain.hashes import LIKELY_DISTANCE, distance, hash_of_pixels
from bot.domain.jobs import with_pictures
from bot.files import Artifacts, Files
from bot.process.retries import while_unavailable
from bot.process.threads import Threads
from bot.store.rows.device_time import Spent
from bot.store.store import Store
from bot.telemetry.tracing import about
from bot.worker.given_pictures import GivenPictures
from bot.worker.model_use import ModelUse
from sdjax_engine.engine import Engine
from sdjax_engine.errors import EngineClosed, EngineError, InvalidRequest
from sdjax_engine.images import encode_png
from sdjax_engine.model.pictures import Fitted
from sdjax_engine.request import Image, Lane, Request

T = TypeVar("T")

log = logging.getLogger(__name__)

START_MISSING = "start_missing"
START_NOT_OFFERED = "start_not_offered"
START_CHANGED = "start_changed"
REPAINTS_AT_ONCE = 4
LEASE_SECONDS = 300.0  # of a lost file; afterwards another worker may repaint it
POLL_SECONDS = 1.0
OTHER_WORKER_SECONDS = 900.0  # how long to wait for a file that only another worker can repaint
PNG = ".png"

Begun = Callable[[], None]


def metadata_of(job_id: str) -> Mapping[str, str]:
    """Return the metadata of a picture's file, beside its recipe. It changes the file's bytes and name."""
    return {"job": job_id}


class Repaint:
    """Reads files, and has `engine` repaint lost files. Each file is repainted once at a time.

    A verb of the store or the disk is retried for about `retry_seconds`.
    """

    def __init__(
        self,
        engine: Engine,
        store: Store,
        artifacts: Artifacts,
        *,
        models: ModelUse,
        given: GivenPictures,
        retry_seconds: float,
        accelerator: str = "cpu",
    ) -> None:
        self._models = models
        self._given = given
        self._engine = engine
        self._store = store
        self._artifacts = artifacts
        self._files = Files(store.files, artifacts)
        self._retry_seconds = retry_seconds
        self._accelerator = accelerator
        self._threads = Threads("pictures", most=1)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def file(self, name: str, *, begun: Begun = lambda: None) -> bytes:
        """Return the file of this name; call `begun` once the devices work on its repaint.

        Raises LostForGood where the file is lost and cannot be repainted, MissingArtifact where it cannot be
        read, StoreUnavailable where it cannot be written, and the engine's errors.
        """
        lock = self._locks.get(name)
        if lock is None:
            lock = self._locks[name] = asyncio.Lock()
        async with lock:
            try:
                return await self._persistently(lambda: self._artifacts.get(name))
            except StoreUnavailable as error:
                raise MissingArtifact(f"The file {name} cannot be read: {error}") from error
            except MissingArtifact as missing:
                painter = await self._persistently(lambda: self._store.files.painter(name))
                if painter is None:
                    raise LostForGood(str(missing), failure=START_MISSING) from None
            return await self._repaint(name, painter, begun)

    async def given(
        self, job_id: str, names: Mapping[str, str], *, begun: Begun = lambda: None
    ) -> dict[str, bytes]:
        """Return the given pictures of a job by their fields, whose recipe has named these files.

        Raises like `file`.
        """
        try:
            return {field: await self.file(name, begun=begun) for field, name in names.items()}
        except LostForGood:  # or repainted meanwhile, and the recipe names the file that took its place
            now_named = await self._persistently(lambda: self._store.files.given(job_id))
            if now_named is None or now_named == names:
                raise
        return await self.given(job_id, now_named, begun=begun)

    async def run(self) -> None:
        """Repaint the files that results or other workers wait for, until cancelled."""
        repaints: set[asyncio.Task[None]] = set()
        async with asyncio.TaskGroup() as group:
            while True:
                for lost in await self._claimed(REPAINTS_AT_ONCE - len(repaints)):
                    task = group.create_task(self._repaint_lost(lost), name=f"file {lost.name}")
                    repaints.add(task)
                    task.add_done_callback(repaints.discard)
                await asyncio.sleep(POLL_SECONDS)

    async def _claimed(self, limit: int) -> list[LostFile]:
        if limit <= 0:
            return []
        try:
            return await self._store.files.claim_lost(
                self._engine.ready_lanes, limit=limit, ttl=LEASE_SECONDS
            )
        except StoreUnavailable as error:
            log.error("lost files cannot be claimed: %s", error)
        except Exception:
            log.exception("lost files cannot be claimed: unexpected error")
        return []

    async def _repaint_lost(self, lost: LostFile) -> None:
        """Repaint a claimed file, or record why it is lost for good. After other errors the lease expires."""
        with about(lost.painter.job_id):
            try:
                failure = await self._failure(lost.name)
                await self._persistently(lambda: self._store.files.end_wait(lost.name, failure=failure))
            except (BotError, EngineError) as error:
                log.warning("the lost file %s is tried again with the next lease: %s", lost.name, error)
            except Exception:
                log.exception("the lost file %s is tried again with the next lease", lost.name)

    async def _failure(self, name: str) -> str | None:
        """Make sure that the file exists; return why it is lost for good, or None."""
        try:
            await self.file(name)
        except LostForGood as error:
            return error.failure
        return None

    async def _wait_for_other_worker(self, name: str, painter: Painter, lane: Lane) -> bytes:
        """Return the file once a worker that offers `lane` has repainted it.

        Raises LostForGood where none does in OTHER_WORKER_SECONDS.
        """
        until = time.monotonic() + OTHER_WORKER_SECONDS
        while time.monotonic() < until and await self._persistently(
            lambda: self._store.offers.is_offered(lane)
        ):
            now_named = functools.partial(self._store.files.of_image, painter.job_id, painter.index)
            wanted = await self._persistently(now_named) or name
            lost = await self._persistently(functools.partial(self._store.files.want, [wanted]))
            if lost.failure is not None:
                raise LostForGood(f"No worker can repaint {name}.", failure=lost.failure)
            await asyncio.sleep(POLL_SECONDS)
            with contextlib.suppress(MissingArtifact):
                return await self._persistently(functools.partial(self._artifacts.get, wanted))
        raise LostForGood(f"No worker repaints {name}, of {lane}.", failure=START_NOT_OFFERED)

    async def _repaint(self, name: str, painter: Painter, begun: Begun) -> bytes:
        log.info("the lost file %s is repainted: picture %d of job %s", name, painter.index, painter.job_id)
        if (lane := self._lacking(painter)) is None:
            request = await self._request(name, painter, begun)
            lane = self._lacking(painter)  # the models may have changed while this waited
        if lane is not None:
            return await self._wait_for_other_worker(name, painter, lane)
        image = await self._image(request, painter, name, begun)
        png = await self._threads.run(
            encode_png, image.pixels, image.request, extra=metadata_of(painter.job_id), int8=image.int8
        )
        now_named = await self._artifacts.name(png, PNG)
        if now_named != name and not await self._shows_the_same(image, painter):
            raise LostForGood(f"The recipe of {name} now gives another picture.", failure=START_CHANGED)
        await self._persistently(functools.partial(self._files.keep, png, PNG))
        if now_named != name:
            await self._persistently(functools.partial(self._store.files.replace, name, now_named))
        return png

    def _lacking(self, painter: Painter) -> Lane | None:
        """Return a lane of a lost picture that this engine is without."""
        lanes = painter.recipe.request(painter.index).lanes
        return next((lane for lane in lanes if lane not in self._engine.lanes), None)

    async def _shows_the_same(self, image: Image, painter: Painter) -> bool:
        """Return whether a picture is almost identical to the lost one, as far as that is known."""
        if painter.hash is None:
            return False
        number = await self._threads.run(hash_of_pixels, image.pixels)
        return distance(number, painter.hash) <= LIKELY_DISTANCE

    async def _image(self, request: Request, painter: Painter, name: str, begun: Begun) -> Image:
        """Paint a lost picture again; raises LostForGood."""
        recipe = painter.recipe
        try:
            async with self._models.of(request.model):
                start = await self._given.start(request, recipe.given)
                image = await self._painted(request, start, begun)
        except InvalidRequest as error:
            raise LostForGood(f"The engine refuses {name}: {error}", failure=START_NOT_OFFERED) from error
        spent = Spent(accelerator=self._accelerator, seconds=image.device_seconds)
        adding = self._store.device_time.add_repaint
        await self._persistently(lambda: adding(painter.job_id, recipe.model, spent))
        return image

    async def _request(self, name: str, painter: Painter, begun: Begun) -> Request:
        """Return the request of the lost file, with its given pictures."""
        recipe = painter.recipe
        if name in recipe.given.values():  # a damaged row: no file is given for itself
            raise LostForGood(f"The file {name} names itself.", failure=START_MISSING)
        pictures = await self.given(painter.job_id, recipe.given, begun=begun)
        return with_pictures(recipe.request(painter.index), pictures)

    async def _painted(self, request: Request, start: Fitted | None, begun: Begun) -> Image:
        future: Future[Image] = self._engine.submit(
            request, start=start, on_progress=lambda _progress: begun()
        )
        finished = asyncio.wrap_future(future)
        try:
            await asyncio.wait([finished])
        except asyncio.CancelledError:
            self._engine.cancel(future)
            raise
        if finished.cancelled():
            raise EngineClosed("The engine was closed while it repainted a lost file.")
        return finished.result()

    async def _persistently(self, verb: Callable[[], Awaitable[T]]) -> T:
        return await while_unavailable(self._retry_seconds, verb)
