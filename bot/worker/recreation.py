"""Files that are gone, painted again from the recipe of the image that they belong to, bit for bit.

A picture may have been started from another that is gone too: that one is painted first, and so on down to
one that is there, or that came from a person and is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TypeVar
from weakref import WeakValueDictionary

from bot.album import keep
from bot.artifacts import Artifacts
from bot.errors import BotError, LostForGood, MissingArtifact, StoreUnavailable
from bot.jobs import LostFile, Painter
from bot.log import about
from bot.persistence import persistently
from bot.store.store import Store
from bot.threads import Threads
from bot.worker.starts import Starts
from sdjax_engine.engine import Engine
from sdjax_engine.images import encode_png
from sdjax_engine.model.pictures import Fitted
from sdjax_engine.request import EngineClosed, EngineError, Image, InvalidRequest, Lane, Request

T = TypeVar("T")

log = logging.getLogger(__name__)

START_MISSING = "start_missing"
START_NOT_OFFERED = "start_not_offered"
START_CHANGED = "start_changed"
LOST_AT_ONCE = 4
LOST_SECONDS = 300.0  # to paint one, before another worker may try
POLL_SECONDS = 1.0
PATIENCE_SECONDS = 900.0  # with another worker that offers what is needed
PNG = ".png"

Begun = Callable[[], None]


def extra_of(job_id: str) -> Mapping[str, str]:
    """What a picture's file says beside its recipe: part of its bytes, so of its name."""
    return {"job": job_id}


class Recreation:
    """Reads files, and has `engine` paint those that are gone. One and the same is painted once at a time."""

    def __init__(
        self,
        engine: Engine,
        store: Store,
        artifacts: Artifacts,
        *,
        starts: Starts,
        patience_seconds: float,
    ) -> None:
        self._starts = starts
        self._engine = engine
        self._store = store
        self._artifacts = artifacts
        self._patience_seconds = patience_seconds
        self._threads = Threads("pictures", most=1)
        self._under_way: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def picture(self, name: str, *, begun: Begun = lambda: None) -> bytes:
        """The file of this name; `begun` is called once the devices are at work for it.

        Raises LostForGood where the file is gone and cannot be painted again, MissingArtifact where it cannot
        be read, StoreUnavailable where it cannot be kept, and what the engine raises.
        """
        lock = self._under_way.get(name)
        if lock is None:
            lock = self._under_way[name] = asyncio.Lock()
        async with lock:
            try:
                return await self._persistently(lambda: self._artifacts.get(name))
            except StoreUnavailable as error:
                raise MissingArtifact(f"The file {name} cannot be read: {error}") from error
            except MissingArtifact as missing:
                painter = await self._persistently(lambda: self._store.files.painter(name))
                if painter is None:
                    raise LostForGood(str(missing), failure=START_MISSING) from None
            return await self._painted_again(name, painter, begun)

    async def pictures(
        self, names: Sequence[str | None], *, begun: Begun = lambda: None
    ) -> list[bytes | None]:
        """As `picture` for each of `names`, with None where there is none."""
        return [None if name is None else await self.picture(name, begun=begun) for name in names]

    async def watch(self) -> None:
        """Paint again, for ever, what results or other workers wait for."""
        under_way: set[asyncio.Task[None]] = set()
        try:
            while True:
                under_way = {task for task in under_way if not task.done()}
                for lost in await self._claimed(LOST_AT_ONCE - len(under_way)):
                    under_way.add(asyncio.create_task(self._bring_back(lost), name=f"file {lost.name}"))
                await asyncio.sleep(POLL_SECONDS)
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    async def _claimed(self, limit: int) -> list[LostFile]:
        if limit <= 0:
            return []
        try:
            return await self._store.files.claim_lost(self._engine.ready_lanes, limit=limit, ttl=LOST_SECONDS)
        except StoreUnavailable as error:
            log.error("lost files cannot be looked for: %s", error)
        except Exception:
            log.exception("lost files cannot be looked for, for a reason nobody foresaw")
        return []

    async def _bring_back(self, lost: LostFile) -> None:
        with about(lost.painter.job_id):
            failure = None
            try:
                await self.picture(lost.name)
            except LostForGood as error:
                failure = error.failure
            except (BotError, EngineError) as error:
                log.warning("the lost file %s is tried again with the next lease: %s", lost.name, error)
                return
            except Exception:
                log.exception("the lost file %s is tried again with the next lease", lost.name)
                return
            try:
                await self._persistently(lambda: self._store.files.end_wait(lost.name, failure=failure))
            except StoreUnavailable as error:
                log.error("that the file %s is back could not be recorded: %s", lost.name, error)

    async def _by_another(self, name: str, lane: Lane) -> bytes:
        """The file, once a worker that offers this lane has painted it again; LostForGood without one."""
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until and await self._persistently(
            lambda: self._store.offers.is_offered(lane)
        ):
            lost = await self._persistently(lambda: self._store.files.want([name]))
            if lost.failure is not None:
                raise LostForGood(f"Nobody can paint {name} again.", failure=lost.failure)
            await asyncio.sleep(POLL_SECONDS)
            with contextlib.suppress(MissingArtifact):
                return await self._persistently(lambda: self._artifacts.get(name))
        raise LostForGood(f"Nobody paints {name}, of {lane}, again.", failure=START_NOT_OFFERED)

    async def _painted_again(self, name: str, painter: Painter, begun: Begun) -> bytes:
        log.info(
            "the file %s is gone and is painted again, as picture %d of job %s",
            name,
            painter.index,
            painter.job_id,
        )
        if painter.recipe.lane not in self._engine.lanes:
            return await self._by_another(name, painter.recipe.lane)
        request = await self._request(name, painter, begun)
        try:
            recipe = painter.recipe
            start = await self._starts.fitted(request, recipe.init_image, recipe.mask_image)
            image = await self._painted(request, start, begun)
        except InvalidRequest as error:
            raise LostForGood(f"The engine refuses {name}: {error}", failure=START_NOT_OFFERED) from error
        extra = extra_of(painter.job_id)
        png = await self._threads.run(encode_png, image.pixels, image.request, extra=extra)
        if await self._artifacts.name(png, PNG) != name:
            raise LostForGood(f"The recipe of {name} now gives another picture.", failure=START_CHANGED)
        await self._persistently(lambda: keep(self._store, self._artifacts, png, PNG))
        return png

    async def _request(self, name: str, painter: Painter, begun: Begun) -> Request:
        """The request that painted the file, with the pictures that it was started from."""
        recipe = painter.recipe
        if name in recipe.start_pictures:  # no file is made from itself: the row is not to be believed
            raise LostForGood(f"The file {name} names itself.", failure=START_MISSING)
        start, mask = await self.pictures((recipe.init_image, recipe.mask_image), begun=begun)
        return replace(recipe.request(painter.index), init_image=start, mask_image=mask)

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
            raise EngineClosed("The engine was closed while it painted a lost file again.")
        return finished.result()

    async def _persistently(self, verb: Callable[[], Awaitable[T]]) -> T:
        return await persistently(verb, seconds=self._patience_seconds)
