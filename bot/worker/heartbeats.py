"""The worker's heartbeats: they renew leases, store steps and previews, cancel images, and offer lanes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from importlib.metadata import version
from typing import NoReturn

from bot.domain.errors import StoreUnavailable
from bot.store.store import Store
from bot.telemetry.metrics import WorkerMetrics
from bot.worker.ends import Ends
from bot.worker.held_image import HeldImage
from bot.worker.preview_files import PreviewFiles
from sdjax_engine.engine import Engine
from sdjax_engine.request import Lane

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 1.0  # also the age of the step that people see
EXPIRY_SECONDS = 5.0
OFFER_SECONDS = 20.0  # how long people are told of a worker that has died


class Heartbeats:
    """Sends the heartbeats of the worker `name`; `held` is a live view of the images that it holds.

    A lease lasts `lease_seconds` without a heartbeat.
    """

    def __init__(
        self,
        engine: Engine,
        store: Store,
        held: Collection[HeldImage],
        *,
        name: str,
        lease_seconds: float,
        accelerator: str,
        previews: PreviewFiles,
        metrics: WorkerMetrics,
        ends: Ends,
    ) -> None:
        self._engine = engine
        self._store = store
        self._held = held
        self._name = name
        self._lease_seconds = lease_seconds
        self._accelerator = accelerator
        self._previews = previews
        self._metrics = metrics
        self._ends = ends
        self._sent_at = time.monotonic()
        self._offers = True

    @property
    def silence(self) -> float:
        """The seconds since the last heartbeat."""
        return time.monotonic() - self._sent_at

    async def begin(self) -> None:
        """Take back the images that the worker held before a restart, and offer its lanes."""
        self._taken_back(await self._store.leases.recover(self._name))
        await self.announce()

    async def run(self) -> NoReturn:
        """Send a heartbeat a second, and take back images whose lease has expired."""
        now = asyncio.get_running_loop().time
        announce_at = now()
        while True:
            try:
                await self._renew()  # first: after a long pause the process may still hold its leases
                if now() >= announce_at:
                    announce_at = now() + EXPIRY_SECONDS
                    await self.announce()
                    self._taken_back(await self._store.leases.expire())
            except StoreUnavailable as error:
                log.error("no heartbeat: %s", error)
            except Exception:
                log.exception("no heartbeat: unexpected error")
            else:
                self._sent_at = time.monotonic()
            await self._store.wake_ups.cancellations.wait(HEARTBEAT_SECONDS)

    async def announce(self) -> None:
        """Offer the lanes that the engine serves now, unless withdrawn, and measure it.

        Raises StoreUnavailable.
        """
        seats = seats_of(self._engine, self._engine.lanes)
        self._metrics.seats.set(max(seats.values(), default=0))
        sums = self._engine.run_sums
        self._metrics.note_runs(sums.runs, sums.late, dispatching=sums.dispatching, finishing=sums.finishing)
        if self._offers:
            await self._store.offers.announce(
                self._name,
                lanes=list(seats),
                seats=seats,
                ttl=min(self._lease_seconds, OFFER_SECONDS),
                accelerator=self._accelerator,
                version=version("sdjax-bot"),
                ready=len(self._engine.ready_lanes),
                hourly=self._ends.hourly,
                memory=self._engine.memory_in_use,
            )

    async def withdraw(self) -> None:
        """Offer no lane any more: the worker begins no more images. Raises StoreUnavailable."""
        self._offers = False
        await self._store.offers.withdraw(self._name)

    async def _renew(self) -> None:
        images = {held.claim.image_id: held for held in self._held if not held.lost}
        if not images:
            return
        steps = {held.claim: held.step for held in images.values()}
        begun = {held.claim for held in images.values() if held.begun}
        troubles = {held.claim: held.trouble for held in images.values() if held.trouble is not None}
        previews = await self._previews.take(images.values())
        lost = await self._store.leases.heartbeat(
            steps, ttl=self._lease_seconds, begun=begun, troubles=troubles, previews=previews
        )
        for image_id in lost:
            held = images[image_id]
            held.lost = True
            if held.future is not None:
                self._engine.cancel(held.future)

    def _taken_back(self, count: int) -> None:
        if count:
            self._metrics.images.labels("taken_back").inc(count)
            log.warning("%d images were taken back: their worker sent no heartbeat", count)


def seats_of(engine: Engine, lanes: Iterable[Lane]) -> dict[Lane, int]:
    """Return the seats of lanes, without those that a change of the models closes at this moment."""
    seats = {}
    for lane in lanes:
        with suppress(KeyError):
            seats[lane] = engine.capacity(lane)
    return seats
