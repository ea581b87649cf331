"""The endless tasks beside the worker's loop."""

from __future__ import annotations

import asyncio
import logging

import pytest

from bot.worker.side_tasks import keep_running


class FailingWork:
    """Endless work whose first `failures` starts fail."""

    def __init__(self, failures: int) -> None:
        self.starts = 0
        self.running = asyncio.Event()
        self._failures = failures

    async def __call__(self) -> None:
        self.starts += 1
        if self.starts <= self._failures:
            raise ZeroDivisionError
        self.running.set()
        await asyncio.Event().wait()


async def test_work_that_fails_is_logged_and_started_again(caplog: pytest.LogCaptureFixture) -> None:
    work = FailingWork(failures=2)
    with caplog.at_level(logging.ERROR, logger="bot.worker.side_tasks"):
        task = asyncio.create_task(keep_running(work, "heartbeat", pause_seconds=0.0))
        async with asyncio.timeout(15):
            await work.running.wait()
    assert work.starts == 3
    assert [record.getMessage() for record in caplog.records] == [
        "the heartbeat failed and starts again in 0 s"
    ] * 2
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
