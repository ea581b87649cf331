"""The watch over the event loop."""

import asyncio
import logging
import time

import pytest

from bot.metrics import Metrics
from bot.stalls import StallWatch


def hold_the_loop(seconds: float) -> None:
    time.sleep(seconds)


async def test_a_loop_that_stands_still_is_counted_and_said_with_what_held_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metrics = Metrics()
    watching = asyncio.create_task(StallWatch(metrics.loop, limit=0.2).run())
    await asyncio.sleep(0.1)
    with caplog.at_level(logging.WARNING):
        hold_the_loop(0.5)
        await asyncio.sleep(0.1)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert metrics.registry.get_sample_value("sdjax_loop_stalls_total") == 1
    assert (metrics.registry.get_sample_value("sdjax_loop_longest_stall_seconds") or 0.0) >= 0.3
    assert "hold_the_loop" in caplog.text


async def test_a_loop_that_is_quick_is_not_complained_of() -> None:
    metrics = Metrics()
    watching = asyncio.create_task(StallWatch(metrics.loop, limit=10.0).run())
    await asyncio.sleep(0.2)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert metrics.registry.get_sample_value("sdjax_loop_stalls_total") == 0
    assert (metrics.registry.get_sample_value("sdjax_loop_lag_seconds_count") or 0) >= 1
