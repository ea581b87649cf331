"""The role of a front: Discord, the answers to people, progress and delivery. It needs no engine, no JAX."""

from __future__ import annotations

import asyncio
import logging
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
from bot.lifetime import Running, Stop, Stopped, run_to_the_end, steady_time
from sdjax_engine.request import Offer

log = logging.getLogger(__name__)

ANSWER_SECONDS = 10.0
FLUSH_SECONDS = 10.0


def run_front(config: Config) -> None:
    """Run a front until SIGINT or SIGTERM; raises like `serve`."""
    run_to_the_end(lambda stop: serve(config, stop=stop))


async def serve(config: Config, *, stop: Stop, ready: Callable[[], None] = lambda: None) -> None:
    """Answer people and deliver results until `stop`; `ready` is called once commands are answered.

    Raises ConfigurationError, DiscordUnavailable or StoreUnavailable.
    """
    token = config.discord.read_token()
    async with AsyncExitStack() as stack:
        queue = await open_queue(config, "front", stack)
        running = Running(stop)
        stack.push_async_callback(running.close)
        queue.start(running)
        try:
            learned = await running.wait_for(learn(config, queue.store))
            front = await open_front(learned, queue, stack)
            await running.wait_for(log_in(front.client, token, config.discord.api_url))
            front.start(running)
            offers = front.client.parts.offers
            running.start(follow(config, queue.store, offers, front.change_offers), "offers")
            try:
                await running.wait_for(front.client.wait_until_ready())
                ready()
                await running.for_ever()
            finally:
                await front.drain(stop)
        except Stopped:
            log.info("stopped")


@dataclass(frozen=True, kw_only=True)
class FrontSide:
    """The parts of a front."""

    client: Bot
    progress: Progress
    outbox: Outbox

    def start(self, running: Running) -> None:
        """Connect, follow the jobs and deliver for as long as `running` lasts; the client is logged in."""
        running.start(connect(self.client), "gateway")
        running.start(self.outbox.run(), "outbox")
        running.start(self.progress.run(), "progress")

    async def change_offers(self, offers: tuple[Offer, ...]) -> None:
        """Offer something else from now on; raises like `Bot.change_offers`."""
        self.outbox.offers = offers
        await self.client.change_offers(offers)

    async def drain(self, stop: Stop) -> None:
        """Hear of nothing new, finish what is being answered, deliver what is due.

        Each has its time, and all is over at once when asked to stop now. What is not done by then is not
        lost: it waits in the queue for another front or the next start.
        """
        await stop.let_finish(self._finish())

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

    metrics, clock, name = queue.metrics, steady_time(), queue.name
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
