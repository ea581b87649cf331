"""The end of the worker's role: failures beside and of the worker, requests to shut down, cancellation."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bot.app.worker import run_until_shutdown
from bot.domain.errors import NameTaken
from bot.process.shutdown import BackgroundTasks, Shutdown, ShutdownRequested


class ScriptedWorker:
    """A worker whose drain takes until `finish` is set."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.finish = asyncio.Event()
        self.failure: Exception | None = None
        self._draining = asyncio.Event()

    async def run(self) -> None:
        try:
            if self.failure is not None:
                raise self.failure
            await self._draining.wait()
            self.events.append("drains")
            await self.finish.wait()
            self.events.append("finished")
        except asyncio.CancelledError:
            self.events.append("cancelled")
            raise

    def drain(self) -> None:
        self._draining.set()


async def turns() -> None:
    """Let every task go on until it waits: nothing here waits for anything outside the loop."""
    for _ in range(20):
        await asyncio.sleep(0)


async def role(worker: ScriptedWorker, shutdown: Shutdown, beside: asyncio.Future[None]) -> None:
    async def heartbeat() -> None:
        await beside

    async with BackgroundTasks(shutdown) as tasks:
        tasks.start(heartbeat(), "heartbeat")
        stand_in: Any = worker
        await run_until_shutdown(stand_in, tasks, shutdown)


async def begun(
    worker: ScriptedWorker, shutdown: Shutdown, beside: asyncio.Future[None]
) -> asyncio.Task[None]:
    running = asyncio.create_task(role(worker, shutdown, beside))
    await turns()
    return running


async def test_a_failure_beside_the_worker_drains_it_and_is_raised_afterwards() -> None:
    worker, beside = ScriptedWorker(), asyncio.get_running_loop().create_future()
    running = await begun(worker, Shutdown(), beside)
    beside.set_exception(NameTaken("taken"))
    await turns()
    assert worker.events == ["drains"]
    assert not running.done()
    worker.finish.set()
    with pytest.raises(NameTaken):
        await running
    assert worker.events == ["drains", "finished"]


async def test_a_request_drains_the_worker_and_a_second_one_cancels_it() -> None:
    worker, shutdown, beside = ScriptedWorker(), Shutdown(), asyncio.get_running_loop().create_future()
    running = await begun(worker, shutdown, beside)
    shutdown.request()
    await turns()
    assert worker.events == ["drains"]
    assert not beside.done()
    shutdown.request()
    with pytest.raises(ShutdownRequested):
        await running
    assert worker.events == ["drains", "cancelled"]


async def test_a_failure_during_the_drain_does_not_cut_it_short() -> None:
    worker, shutdown, beside = ScriptedWorker(), Shutdown(), asyncio.get_running_loop().create_future()
    running = await begun(worker, shutdown, beside)
    shutdown.request()
    await turns()
    beside.set_exception(NameTaken("taken"))
    await turns()
    assert worker.events == ["drains"]
    worker.finish.set()
    with pytest.raises(ShutdownRequested):
        await running
    assert worker.events == ["drains", "finished"]
