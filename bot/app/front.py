"""The role `front`: answers commands, shows progress and delivers results. It loads no engine and no JAX."""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import discord

from bot.app.discord_side import connect, log_in
from bot.app.offers import Following, wait_for_defaults
from bot.app.page import open_page
from bot.app.queue import Queue, open_queue
from bot.app.reloading import Load, Reloading, Take
from bot.config import Config
from bot.delivery.progress import MessageLocks, Progress
from bot.delivery.result_outbox import Results
from bot.delivery.review_outbox import ReviewOutbox
from bot.delivery.sender import Sender
from bot.delivery.uploads import Uploads
from bot.domain.errors import CommandsRefused
from bot.domain.jobs import Job
from bot.front.client import Bot
from bot.front.gateway.address import use_address
from bot.front.recipes.keywords import keywords_of
from bot.front.sessions.desk import Desk
from bot.front.sessions.posts import SessionPosts
from bot.moderation import hard_rule
from bot.process.shutdown import BackgroundTasks, Shutdown, ShutdownRequested, run_process
from bot.process.threads import in_thread
from bot.provenance.opening import open_signing
from bot.provenance.signing import Signing
from sdjax_engine.request import Offer

log = logging.getLogger(__name__)

ANSWER_SECONDS = 10.0
FLUSH_SECONDS = 10.0


def run_front(config: Config, *, load: Load, ready: Callable[[], None] = lambda: None) -> None:
    """Run a front until SIGINT or SIGTERM; calls `load` and `ready`, and raises, like `serve`."""
    run_process(lambda shutdown: serve(config, shutdown=shutdown, load=load, ready=ready))


async def serve(
    config: Config,
    *,
    shutdown: Shutdown,
    load: Load | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Answer commands and deliver results until `shutdown`; call `ready` once commands are answered.

    `load` reads the configuration again at each request of `shutdown` to reload.
    Raises ConfigurationError, DiscordUnavailable or StoreUnavailable.
    """
    token = config.discord.read_token()
    async with AsyncExitStack() as stack:
        queue = await open_queue(config, "front", stack)
        tasks = await stack.enter_async_context(BackgroundTasks(shutdown))
        queue.start(tasks)
        try:
            with_defaults = await tasks.wait_for(wait_for_defaults(config, queue.store.offers))
            front = await open_front(with_defaults, queue, stack)
            await open_page(config, queue, stack)
            await tasks.wait_for(log_in(front.client, token, config.discord.api_url))
            following = front.following(config, queue)
            try:
                await tasks.wait_for(following.begin(front.client.services.offers))
            except CommandsRefused as error:
                log.error("%s", error)  # Discord keeps the earlier commands, and workers may offer others
            front.start(tasks)
            tasks.keep(following.run, "offers")
            if load is not None:
                prepare = functools.partial(prepare_front, front=front, queue=queue, following=following)
                reloading = Reloading(config, load, prepare)
                tasks.keep(lambda: reloading.run(shutdown.reload), "reload")
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
    """The client of a front, and the loops beside it."""

    client: Bot
    progress: Progress
    results: Results
    reviews: ReviewOutbox
    posts: SessionPosts
    desk: Desk

    def start(self, tasks: BackgroundTasks) -> None:
        """Start the gateway connection and the loops beside it. The client must be logged in."""
        tasks.start(connect(self.client), "gateway")
        tasks.keep(self.results.run, "outbox")
        tasks.keep(self.progress.run, "progress")
        tasks.keep(self.reviews.run, "reviews")
        tasks.keep(self.posts.run, "posts")
        tasks.keep(self.desk.run, "group sessions")

    def following(self, config: Config, queue: Queue) -> Following:
        """Return the loop that follows the offers of workers."""
        return Following(config, queue.store.offers, self.change_offers)

    async def change_offers(self, offers: tuple[Offer, ...]) -> None:
        """Replace the offers; raises like `Bot.change_offers`."""
        self.results.offers = offers
        await self.client.change_offers(offers)

    async def drain(self, shutdown: Shutdown) -> None:
        """Accept no new command, finish the answers under way, and deliver the results that are due.

        Each step has a time limit. A second shutdown request ends all of them at once. The rest is not lost:
        it waits in the queue for another front or the next start.
        """
        await shutdown.drain(self._finish())

    async def _finish(self) -> None:
        if self.client.is_closed():
            return  # Discord has closed the connection: nothing can be sent
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self.client.hear_no_more()
        except TimeoutError:
            log.warning("some commands were not answered completely")
        await self.results.flush(seconds=FLUSH_SECONDS)


async def prepare_front(config: Config, *, front: FrontSide, queue: Queue, following: Following) -> Take:
    """Read another configuration's keywords; return the step that takes it. Raises ConfigurationError."""
    keywords = await in_thread(functools.partial(keywords_of, config.prompts.keywords_file), "keywords")

    async def take() -> None:
        queue.change(config)
        front.client.change(config, keywords)
        front.results.label = config.provenance.told
        await following.reconfigure(config)

    return take


async def open_front(config: Config, queue: Queue, stack: AsyncExitStack) -> FrontSide:
    """Build a front that is not connected yet; `stack` closes it. Raises ConfigurationError."""
    use_address(config.discord.api_url, config.discord.gateway_url)
    discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False  # the bot joins no voice channels

    async def announce(job: Job) -> None:
        await progress.announce(job)

    metrics, clock, name = queue.metrics, steady_clock(), queue.name
    signing = await _open_signing(config, queue)
    stack.callback(signing.close)
    client = Bot(
        *(config, queue.store, queue.artifacts),
        name=name,
        announce=announce,
        hard_rule=await in_thread(hard_rule, "hard rule"),
        clock=clock,
        metrics=metrics.front,
        signing=signing,
        tracing=queue.tracing,
    )
    await stack.enter_async_context(client)
    guard, limits, message_locks = client.rate_guard, client.limits_on_files, MessageLocks()
    sender = Sender(*(client, queue.artifacts), clock=clock, rate_guard=guard, limits=limits, signing=signing)
    membership = queue.membership
    progress = Progress(
        queue.store,
        queue.artifacts,
        sender,
        message_locks,
        front=name,
        clock=clock,
        fronts=lambda: membership.fronts,
        signing=signing,
    )
    results = Results(
        *(queue.store, sender, message_locks),
        front=name,
        clock=queue.store.clock,
        offers=client.services.offers,
        label=config.provenance.told,
        metrics=metrics.delivery,
        tracing=queue.tracing,
    )
    desk = Desk(client, lambda: client.services, rate_guard=guard, clock=clock)
    queue.checks.update(gateway=client.health, outbox=results.health, signing=signing.health)
    gc.freeze()  # full collections pass over what exists now: all modules are imported
    return FrontSide(
        client=client,
        progress=progress,
        results=results,
        reviews=ReviewOutbox(queue.store, client, sender, Uploads(queue.artifacts, signing), front=name),
        posts=desk.posts(queue.store, front=name),
        desk=desk,
    )


async def _open_signing(config: Config, queue: Queue) -> Signing:
    starts = queue.artifacts.reader(asyncio.get_running_loop())
    opening = functools.partial(
        open_signing, config.provenance, metrics=queue.metrics.provenance, starts=starts
    )
    signing = await in_thread(opening, "certificate")
    if not signing.watermarks:
        log.info("pictures get no invisible watermark: provenance.watermark names no weights")
    return signing
