"""The role of a whole bot: a front and a worker in one process."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AsyncExitStack

from bot.app.discord_side import log_in
from bot.app.front import open_front
from bot.app.queue import open_queue
from bot.app.worker import Report, open_worker, paint, settled
from bot.config import Config
from bot.lifetime import Running, Stop, Stopped, run_to_the_end

log = logging.getLogger(__name__)


def run_both(config: Config) -> None:
    """Run the bot on Discord until SIGINT or SIGTERM; raises like `serve`."""
    run_to_the_end(lambda stop: serve(config, stop=stop, report=log.info))


async def serve(
    config: Config, *, stop: Stop, report: Report, ready: Callable[[], None] = lambda: None
) -> None:
    """Run every part until `stop`; `ready` is called once commands are answered and painted.

    Raises ConfigurationError, DiscordUnavailable, StoreUnavailable, UnreadableCheckpoint or EngineClosed.
    """
    token = config.discord.read_token()
    config = await settled(config, report)
    async with AsyncExitStack() as stack:
        queue = await open_queue(config, "both", stack)
        front = await open_front(config, queue, stack)
        running = Running(stop)
        stack.push_async_callback(running.close)
        queue.start(running)
        try:
            await running.wait_for(log_in(front.client, token, config.discord.api_url))
            front.start(running)
            try:
                worker = await open_worker(config, queue, report, running, stack)
                await running.wait_for(front.client.wait_until_ready())
                ready()
                await paint(worker, running, stop)
            finally:
                await front.drain(stop)
        except Stopped:
            log.info("stopped")
