"""The watch over the event loop."""

import asyncio
import ctypes
import logging
import threading
import time

import pytest

from bot.telemetry import loop_watch
from bot.telemetry.loop_watch import CollectionWatch, LoopWatch
from bot.telemetry.metrics import Metrics


def hold_the_loop(seconds: float) -> None:
    time.sleep(seconds)


async def test_a_blocked_loop_is_counted_and_logged_with_the_call_that_held_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metrics = Metrics()
    watching = asyncio.create_task(LoopWatch(metrics.loop, limit=0.2).run())
    await asyncio.sleep(0.1)
    with caplog.at_level(logging.WARNING):
        hold_the_loop(0.5)
        async with asyncio.timeout(20):
            while "hold_the_loop" not in caplog.text:  # noqa: ASYNC110 - a log sets no event
                await asyncio.sleep(0.01)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert metrics.registry.get_sample_value("sdjax_loop_stalls_total") == 1
    assert (metrics.registry.get_sample_value("sdjax_loop_longest_stall_seconds") or 0.0) >= 0.3


def hold_the_interpreter(seconds: float) -> None:
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))  # calls by PyDLL keep the interpreter lock


async def test_a_stall_without_a_processor_is_counted_apart(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(
        loop_watch, "run_delay", time.monotonic
    )  # as if the thread always waited for a processor
    metrics = Metrics()
    watching = asyncio.create_task(LoopWatch(metrics.loop, limit=0.2).run())
    await asyncio.sleep(0.1)
    hold_the_loop(0.5)
    async with asyncio.timeout(20):
        while "without a processor" not in caplog.text:  # noqa: ASYNC110 - a log sets no event
            await asyncio.sleep(0.01)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    counted = metrics.registry.get_sample_value
    assert counted("sdjax_loop_starved_stalls_total") == counted("sdjax_loop_stalls_total")
    assert (counted("sdjax_loop_starved_seconds_total") or 0.0) >= 0.4


async def test_native_code_that_keeps_the_interpreter_lock_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """Repeats the call, as another thread may take the lock first when the native code returns."""
    watching = asyncio.create_task(LoopWatch(Metrics().loop, limit=0.2).run())
    named = threading.Event()

    def serialise() -> None:
        while not named.is_set():
            hold_the_interpreter(0.5)
            time.sleep(0.1)

    await asyncio.sleep(0.1)
    holding = threading.Thread(target=serialise, name="serialiser")
    holding.start()
    try:
        async with asyncio.timeout(60):
            while "serialiser in hold_the_interpreter" not in caplog.text:  # noqa: ASYNC110 - a log sets no event
                await asyncio.sleep(0.01)
    finally:
        named.set()
        holding.join()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def test_a_long_garbage_collection_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    now = iter([0.0, 1.5])
    collections = CollectionWatch(0.25, lambda: next(now))
    for phase in ("start", "stop"):
        collections(phase, {"generation": 0})
        collections(phase, {"generation": 2})
    assert caplog.messages == ["a garbage collection took 1.50 s"]


async def test_a_responsive_loop_counts_no_stall() -> None:
    metrics = Metrics()
    watching = asyncio.create_task(LoopWatch(metrics.loop, limit=10.0).run())
    async with asyncio.timeout(20):
        while not metrics.registry.get_sample_value("sdjax_loop_lag_seconds_count"):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert metrics.registry.get_sample_value("sdjax_loop_stalls_total") == 0
