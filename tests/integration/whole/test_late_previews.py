"""A machine too busy to encode previews: heartbeats go on without previews."""

from __future__ import annotations

import logging
import time
from dataclasses import replace

import numpy as np
import pytest
from recipes import origin
from serving import working
from test_worker import SMALL, ended

from bot.domain.jobs import State
from bot.files.artifacts import Artifacts
from bot.store import Store
from bot.telemetry.metrics import Metrics
from bot.worker import heartbeats, preview_files
from bot.worker.held_image import HeldImage
from bot.worker.worker import Worker
from sdjax_engine.engine import Engine


@pytest.mark.usefixtures("slow_devices")
async def test_a_heartbeat_leaves_late_previews_out_and_counts_it(
    tiny_engine: Engine,
    store: Store,
    artifacts: Artifacts,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def encode_late(*_pixels: object, **_options: object) -> bytes:
        time.sleep(0.2)
        return b""

    monkeypatch.setattr(HeldImage, "take_preview", lambda _held: np.zeros((8, 8, 3), np.uint8))
    monkeypatch.setattr(preview_files, "encode_preview", encode_late)
    monkeypatch.setattr(preview_files, "PREVIEW_SECONDS", 0.05)
    monkeypatch.setattr(heartbeats, "HEARTBEAT_SECONDS", 0.05)
    metrics = Metrics()
    job = await store.jobs.enqueue(replace(SMALL, num_inference_steps=20, variants=2), origin(1))
    worker = Worker(tiny_engine, store, artifacts, name="worker", lease_seconds=30.0, metrics=metrics.worker)
    with caplog.at_level(logging.WARNING, logger="bot.worker"):
        async with working(worker):
            (done,) = await ended(store, job)
    assert done.state is State.DONE
    assert metrics.worker.previews_late.collect()[0].samples[0].value >= 1
    assert [record for record in caplog.records if record.name.startswith("bot.worker")] == []
