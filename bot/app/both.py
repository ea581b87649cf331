"""The role `both`: a front and a worker in one process."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AsyncExitStack

from bot.app.discord_side import log_in
from bot.app.front import FrontSide, open_front, prepare_front
from bot.app.offers import Following
from bot.app.page import open_page
from bot.app.queue import Queue, open_queue
from bot.app.reloading import Load, Prepare, Reloading, Take
from bot.app.worker import Report, open_worker, prepare_worker, publish, run_until_shutdown, with_defaults
from bot.config import Config
from bot.process.shutdown import BackgroundTasks, Shutdown, ShutdownRequested, run_process
from bot.worker.worker import Worker

log = logging.getLogger(__name__)


def run_both(config: Config, *, load: Load) -> None:
    """Run the bot on Discord until SIGINT or SIGTERM; calls `load` and raises like `serve`."""
    run_process(lambda shutdown: serve(config, shutdown=shutdown, report=log.info, load=load))


async def serve(
    config: Config,
    *,
    shutdown: Shutdown,
    report: Report,
    load: Load | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Run a front and a worker until `shutdown`; call `ready` once commands are answered and painted.

    `load` reads the configuration again at each request of `shutdown` to reload.
    Raises ConfigurationError, DiscordUnavailable, StoreUnavailable, UnreadableCheckpoint or EngineClosed.
    """
    token = config.discord.read_token()
    complete = await with_defaults(config, report)
    async with AsyncExitStack() as stack:
        queue = await open_queue(config, "both", stack)
        front = await open_front(complete, queue, stack)
        await open_page(config, queue, stack)
        tasks = await stack.enter_async_context(BackgroundTasks(shutdown))
        queue.start(tasks)
        try:
            await tasks.wait_for(log_in(front.client, token, config.discord.api_url))
            following = front.following(complete, queue)
            await tasks.wait_for(following.begin(front.client.services.offers))
            await publish(complete, queue)  # `following` would take the offers of an earlier start
            front.start(tasks)
            tasks.keep(following.run, "offers")
            try:
                worker = await open_worker(complete, queue, report, tasks, stack)
                if load is not None:
                    prepare = _preparing(front, worker, queue, following, report)
                    reloading = Reloading(config, load, prepare)
                    tasks.keep(lambda: reloading.run(shutdown.reload), "reload")
                await tasks.wait_for(front.client.wait_until_ready())
                ready()
                await run_until_shutdown(worker, tasks, shutdown)
            finally:
                await front.drain(shutdown)
        except ShutdownRequested:
            log.info("shut down")


def _preparing(
    front: FrontSide, worker: Worker, queue: Queue, following: Following, report: Report
) -> Prepare:
    async def prepare(config: Config) -> Take:
        complete = await with_defaults(config, report)
        answer = await prepare_front(complete, front=front, queue=queue, following=following)
        work = await prepare_worker(complete, worker=worker, queue=queue)

        async def take() -> None:
            await answer()  # first, so that no new request names a model that the worker is removing
            await work()

        return take

    return prepare
