"""The role of a front: Discord, the answers to people, progress and delivery. It needs no engine, no JAX."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import discord

from bot.app.discord_side import connect, log_in
from bot.app.models import follow, learn
from bot.app.queue import Queue, open_queue
from bot.config import Config
from bot.delivery.message_locks import MessageLocks
from bot.delivery.outbox import Outbox
from bot.delivery.progress import Progress
from bot.delivery.sender import Sender
from bot.front.address import use_address
from bot.front.client import Bot
from bot.garbage import spare_living
from bot.jobs import Job
from bot.shutdown import BackgroundTasks, Shutdown, ShutdownRequested, run_process
from sdjax_engine.request import Offer

log = logging.getLogger(__name__)

ANSWER_SECONDS = 10.0
FLUSH_SECONDS = 10.0


def run_front(config: Config) -> None:
    """Run a front until SIGINT or SIGTERM; raises like `serve`."""
    run_process(lambda shutdown: serve(config, shutdown=shutdown))


async def serve(config: Config, *, shutdown: Shutdown, ready: Callable[[], None] = lambda: None) -> None:
    """Answer commands and deliver results until `shutdown`; call `ready` once commands are answered.

    Raises ConfigurationError, DiscordUnavailable or StoreUnavailable.
    """
    token = config.discord.read_token()
    async with AsyncExitStack() as stack:
        queue = await open_queue(config, "front", stack)
        tasks = await stack.enter_async_context(BackgroundTasks(shutdown))
        queue.start(tasks)
        try:
            learned = await tasks.wait_for(learn(config, queue.store))
            front = await open_front(learned, queue, stack)
            await tasks.wait_for(log_in(front.client, token, config.discord.api_url))
            front.start(tasks)
            offers = front.client.parts.offers
            tasks.start(follow(config, queue.store, offers, front.change_offers), "offers")
            try:
                await tasks.wait_for(front.client.wait_until_ready())
                ready()
                await tasks.wait_for_shutdown()
            finally:
                await front.drain(shutdown)
        except ShutdownRequested:
            log.info("shut down")


def steady_clock(
    wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic
) -> Callable[[], float]:
    """Return a clock of seconds since the epoch that later changes of the system's clock do not move."""
    offset = wall() - steady()
    return lambda: steady() + offset


@dataclass(frozen=True, kw_only=True)
class FrontSide:
    """The parts of a front."""

    client: Bot
    progress: Progress
    outbox: Outbox

    def start(self, tasks: BackgroundTasks) -> None:
        """Connect, follow the jobs and deliver for as long as `tasks` runs; the client is logged in."""
        tasks.start(connect(self.client), "gateway")
        tasks.start(self.outbox.run(), "outbox")
        tasks.start(self.progress.run(), "progress")

    async def change_offers(self, offers: tuple[Offer, ...]) -> None:
        """Offer something else from now on; raises like `Bot.change_offers`."""
        self.outbox.offers = offers
        await self.client.change_offers(offers)

    async def drain(self, shutdown: Shutdown) -> None:
        """Accept no new command, finish the answers under way, and deliver the results that are due.

        Each step has a time limit. A second shutdown request ends all of them at once. The rest is not lost:
        it waits in the queue for another front or the next start.
        """
        await shutdown.drain(self._finish())

    async def _finish(self) -> None:
        if self.client.is_closed():
            return  # Discord has ended it: nothing can be sent any more
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self.client.hear_no_more()
        except TimeoutError:
            log.warning("some commands are not answered to their end")
        await self.outbox.flush(seconds=FLUSH_SECONDS)


async def open_front(config: Config, queue: Queue, stack: AsyncExitStack) -> FrontSide:
    """Put the parts together, still unconnected; `stack` closes them again."""
    use_address(config.discord.api_url, config.discord.gateway_url)
    discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False  # this bot never speaks

    async def announce(job: Job) -> None:
        await progress.announce(job)

    metrics, clock, name = queue.metrics, steady_clock(), queue.name
    client = Bot(
        *(config, queue.store, queue.artifacts),
        name=name,
        announce=announce,
        clock=clock,
        metrics=metrics.front,
    )
    await stack.enter_async_context(client)
    message_locks, sender = MessageLocks(), Sender(client, queue.artifacts, clock=clock)
    membership = queue.membership
    progress = Progress(
        queue.store, sender, message_locks, front=name, clock=clock, fronts=lambda: membership.fronts
    )
    outbox = Outbox(
        *(queue.store, sender, message_locks),
        front=name,
        clock=queue.store.clock,
        offers=client.parts.offers,
        metrics=metrics.delivery,
    )
    queue.checks.update(gateway=client.health, outbox=outbox.health)
    spare_living()  # the imports are done, and nobody waits for an answer yet
    return FrontSide(client=client, progress=progress, outbox=outbox)
