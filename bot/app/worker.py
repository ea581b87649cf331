"""The role of a worker: the engine and the queue. It needs no token and no connection to Discord."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack

from bot.app.queue import Queue, open_queue
from bot.config import Config, ModelConfig
from bot.jobs import SafetyPolicy, Showing
from bot.lifetime import Running, Stop, Stopped, in_own_thread, run_to_the_end
from bot.worker.opening import open_engine, settle
from bot.worker.worker import Worker
from sdjax_engine.engine import Engine

log = logging.getLogger(__name__)

CLOSE_SECONDS = 10.0
Report = Callable[[str], None]


def run_worker(config: Config) -> None:
    """Run a worker until SIGINT or SIGTERM; raises like `serve`."""
    run_to_the_end(lambda stop: serve(config, stop=stop, report=log.info))


async def serve(
    config: Config, *, stop: Stop, report: Report, ready: Callable[[], None] = lambda: None
) -> None:
    """Paint what waits in the queue until `stop`; `ready` is called once it is painted.

    Raises ConfigurationError, StoreUnavailable, UnreadableCheckpoint or EngineClosed.
    """
    async with AsyncExitStack() as stack:
        queue = await open_queue(config, "worker", stack)
        running = Running(stop)
        stack.push_async_callback(running.close)
        queue.start(running)
        try:
            config = await running.wait_for(settled(config, report))
            worker = await open_worker(config, queue, report, running, stack)
            ready()
            await paint(worker, running, stop)
        except Stopped:
            log.info("stopped")


async def settled(config: Config, report: Report) -> Config:
    """The configuration with each model's own defaults; raises UnreadableCheckpoint."""
    return await in_own_thread(lambda: settle(config, report))


async def open_worker(
    config: Config, queue: Queue, report: Report, running: Running, stack: AsyncExitStack
) -> Worker:
    """Say what is offered, open the engine, and put a worker before it; `stack` closes it again.

    `config` is settled.
    """
    await queue.store.offers.publish([model.offer for model in config.models])
    engine = await running.wait_for(in_own_thread(lambda: open_engine(config, report)))
    stack.push_async_callback(close, engine)
    lease = config.queue.lease_seconds
    worker = Worker(
        engine,
        queue.store,
        queue.artifacts,
        name=queue.name,
        lease_seconds=lease,
        drain_seconds=config.queue.drain_seconds,
        policies={model.name: policy_of(model) for model in config.models},
        metrics=queue.metrics.worker,
    )
    queue.checks["engine"] = worker.health
    return worker


def policy_of(model: ModelConfig) -> SafetyPolicy:
    """How pictures of this model are shown that its safety checker flags."""
    return SafetyPolicy(
        elsewhere=Showing(model.flagged), age_restricted=Showing(model.flagged_age_restricted)
    )


async def paint(worker: Worker, running: Running, stop: Stop) -> None:
    """Run the worker until it is asked to stop, then let it finish what it is painting.

    What it has not begun goes back to the queue; so does the rest when it is asked to stop now.
    """
    painting = running.start(worker.run(), "worker")
    try:
        await running.for_ever()
    finally:
        worker.drain()
        await stop.let_finish(painting)


async def close(engine: Engine) -> None:
    """Close the engine, whose work is settled; devices that hang are not waited for."""
    await asyncio.wait({in_own_thread(lambda: engine.close(drain=False))}, timeout=CLOSE_SECONDS)
