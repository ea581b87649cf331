"""The role `both`: a front and a worker in one process."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AsyncExitStack

from bot.app.discord_side import log_in
from bot.app.front import open_front
from bot.app.queue import open_queue
from bot.app.worker import Report, open_worker, run_until_shutdown, with_defaults
from bot.config import Config
from bot.shutdown import BackgroundTasks, Shutdown, ShutdownRequested, run_process

log = logging.getLogger(__name__)


def run_both(config: Config) -> None:
    """Run the bot on Discord until SIGINT or SIGTERM; raises like `serve`."""
    run_process(lambda shutdown: serve(config, shutdown=shutdown, report=log.info))


async def serve(
    config: Config, *, shutdown: Shutdown, report: Report, ready: Callable[[], None] = lambda: None
) -> None:
    """Run a front and a worker until `shutdown`; call `ready` once commands are answered and painted.

    Raises ConfigurationError, DiscordUnavailable, StoreUnavailable, UnreadableCheckpoint or EngineClosed.
    """
    token = config.discord.read_token()
    config = await with_defaults(config, report)
    async with AsyncExitStack() as stack:
        queue = await open_queue(config, "both", stack)
        front = await open_front(config, queue, stack)
        tasks = await stack.enter_async_context(BackgroundTasks(shutdown))
        queue.start(tasks)
        try:
            await tasks.wait_for(log_in(front.client, token, config.discord.api_url))
            front.start(tasks)
            try:
                worker = await open_worker(config, queue, report, tasks, stack)
                await tasks.wait_for(front.client.wait_until_ready())
                ready()
                await run_until_shutdown(worker, tasks, shutdown)
            finally:
                await front.drain(shutdown)
        except ShutdownRequested:
            log.info("shut down")
