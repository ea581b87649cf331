"""A bot that serves the sandbox: a real discord.py client over a real WebSocket, with no engine behind it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bot.config import Config
from bot.delivery.progress import MessageLocks, Progress
from bot.delivery.result_outbox import Results
from bot.delivery.review_outbox import ReviewOutbox
from bot.delivery.sender import Sender
from bot.delivery.uploads import Uploads
from bot.domain.jobs import Job, with_pictures
from bot.files.artifacts import Artifacts
from bot.front.client import Bot
from bot.front.gateway.address import use_address
from bot.front.sessions.desk import Desk
from bot.moderation import hard_rule
from bot.provenance.signing import Signing
from bot.sandbox.community import GUILD_ID
from bot.sandbox.server import Sandbox
from bot.store import Store
from bot.telemetry.tracing import NO_TRACING, Tracing
from sdjax_engine.images import encode_png

if TYPE_CHECKING:
    from bot.worker.worker import Worker

DEADLINE = 20.0
DRAIN_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class Served:
    """A sandbox, its bot, and their queue; there is no engine."""

    sandbox: Sandbox
    store: Store
    artifacts: Artifacts
    bot: Bot

    async def paint(self, job_id: str) -> Job:
        """Do what a worker does, with a grey picture."""
        job = await self.store.jobs.get(job_id)
        while not job.state.final:
            await self.paint_one()
            job = await self.store.jobs.get(job_id)
        return job

    async def paint_one(self) -> None:
        """Paint the image that is next."""
        for claim in await self.store.leases.claim("test", limit=1, ttl=60.0):
            shape = (claim.request.height, claim.request.width, 3)
            pixels = np.full(shape, 128, np.uint8)
            extra = {"job": claim.job_id}
            given = {field: await self.artifacts.get(name) for field, name in claim.given.items()}
            request = with_pictures(claim.request, given)
            name = await self.artifacts.put(encode_png(pixels, request, extra=extra), ".png")
            await self.store.leases.complete(claim, artifact=name, seconds=1.0)


async def until(what: Callable[[], Awaitable[bool]]) -> None:
    """Return once `what()` is true; fail after DEADLINE."""
    async with asyncio.timeout(DEADLINE):
        while not await what():  # noqa: ASYNC110 - another task's database transaction sets no event
            await asyncio.sleep(0.02)


def hears(bot: Bot, sandbox: Sandbox) -> bool:
    """Whether all shards of a bot are connected, and it has been told of the server, if that is theirs."""
    count = bot.shard_count or 1
    mine = set(bot.shard_ids or range(count))
    if not {(number, count) for number in mine} <= sandbox.shards:
        return False
    return (GUILD_ID >> 22) % count not in mine or any(not guild.unavailable for guild in bot.guilds)


@asynccontextmanager
async def serving(
    sandbox: Sandbox,
    store: Store,
    artifacts: Artifacts,
    config: Config,
    *,
    name: str = "front",
    signing: Signing | None = None,
    tracing: Tracing = NO_TRACING,
) -> AsyncIterator[Served]:
    """Log a new client in, follow the jobs and deliver their results until the block ends."""
    use_address(sandbox.api_url, sandbox.gateway_url)
    here = config.discord.model_copy(update={"api_url": sandbox.api_url, "gateway_url": sandbox.gateway_url})
    config = config.model_copy(update={"discord": here})

    async def announce(job: Job) -> None:
        await progress.announce(job)

    bot = Bot(
        *(config, store, artifacts),
        name=name,
        announce=announce,
        hard_rule=hard_rule(),
        signing=signing,
        tracing=tracing,
    )
    guard, message_locks = bot.rate_guard, MessageLocks()
    limits = bot.limits_on_files
    sender = Sender(bot, artifacts, clock=time.time, rate_guard=guard, limits=limits, signing=signing)
    progress = Progress(store, artifacts, sender, message_locks, front=name, clock=time.time, signing=signing)
    results = Results(
        *(store, sender, message_locks),
        front=name,
        clock=time.time,
        offers=bot.services.offers,
        label=config.provenance.told,
        tracing=tracing,
    )
    reviews = ReviewOutbox(store, bot, sender, Uploads(artifacts, signing), front=name)
    desk = Desk(bot, lambda: bot.services, rate_guard=guard, clock=time.time)
    async with bot:
        await bot.login("a-token")
        await bot.register()
        posts = desk.posts(store, front=name)
        loops = (bot.connect(), progress.run(), results.run(), reviews.run(), posts.run(), desk.run())
        tasks = [asyncio.create_task(work) for work in loops]
        try:
            async with asyncio.timeout(DEADLINE):
                while not hears(bot, sandbox):  # noqa: ASYNC110 - no event
                    await asyncio.sleep(0.01)  # `ready` comes two seconds after the last server did
            yield Served(sandbox=sandbox, store=store, artifacts=artifacts, bot=bot)
        finally:
            if bot._connection._ready_task is not None:  # it outlives the client and would dispatch `ready`
                tasks.append(bot._connection._ready_task)
            await bot.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def working(worker: Worker) -> AsyncIterator[asyncio.Task[None]]:
    """Let a worker paint until the block ends, and drain it."""
    task = asyncio.create_task(worker.run())
    yield task
    worker.drain()
    async with asyncio.timeout(DRAIN_SECONDS):
        await task
