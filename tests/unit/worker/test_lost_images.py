"""Images that another worker has, or whose job is cancelled, while this worker still holds them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from test_trouble import CLAIM

from bot.domain.errors import StaleLease
from bot.domain.jobs import Claim
from bot.store.rows.device_time import Spent
from bot.telemetry.metrics import Metrics
from bot.telemetry.tracing import NO_TRACING
from bot.worker.ends import Ends
from bot.worker.heartbeats import Heartbeats
from bot.worker.held_image import HeldImage
from bot.worker.preview_files import PreviewFiles

LOST, KEPT = 1, 2
BEATS = 3


class Leases:
    """The leases of a store where another worker has the image `LOST`."""

    def __init__(self) -> None:
        self.renewed: list[set[int]] = []

    async def heartbeat(self, steps: Collection[Claim], **_told: object) -> set[int]:
        self.renewed.append({claim.image_id for claim in steps})
        return self.renewed[-1] & {LOST}

    async def expire(self) -> int:
        return 0

    async def wait(self, _seconds: float) -> None:
        """Cancel the loop of heartbeats after BEATS of them."""
        if len(self.renewed) == BEATS:
            raise asyncio.CancelledError


async def stale(_spent: Spent) -> None:
    raise StaleLease("image 1 belongs to another worker")


async def added(_claim: Claim, _spent: Spent) -> bool:
    return True


@pytest.mark.parametrize("is_recorded", [False, True])
async def test_a_lost_image_is_renewed_no_more_and_counted_once(is_recorded: bool) -> None:
    leases, metrics = Leases(), Metrics()
    store: Any = SimpleNamespace(
        leases=leases,
        device_time=SimpleNamespace(add=added),
        offers=SimpleNamespace(announce=lambda *_, **__: asyncio.sleep(0)),
        wake_ups=SimpleNamespace(cancellations=leases),
    )
    sums = SimpleNamespace(runs=0, late=0, dispatching=0.0, finishing=0.0)
    engine: Any = SimpleNamespace(lanes=[], run_sums=sums)
    held = {number: HeldImage(claim=replace(CLAIM, image_id=number)) for number in (LOST, KEPT)}
    beating = Heartbeats(
        engine,
        store,
        held.values(),
        name="worker",
        lease_seconds=30.0,
        accelerator="cpu",
        previews=PreviewFiles(lambda _claim: False, metrics.worker),
        metrics=metrics.worker,
    )
    with pytest.raises(asyncio.CancelledError):
        await beating.run()
    assert leases.renewed == [{LOST, KEPT}] + [{KEPT}] * (BEATS - 1)
    ends = Ends(store, metrics.worker, NO_TRACING, retry_seconds=0.0, accelerator="cpu")
    await (ends.record(held[LOST], stale, "painted") if is_recorded else ends.lost(held[LOST]))
    for image in held.values():  # the other's end is never recorded, as after a second cancellation
        ends.report(image, {})
    assert metrics.registry.get_sample_value("sdjax_images_total", {"event": "lost"}) == 1.0
