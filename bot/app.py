"""The composition root: the only place where the parts of the bot meet.

store ─ artifacts ─ sender ─┬─ progress ─┬─ Discord client and its commands
                            └─ outbox    └─ worker ─ engine
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import aiohttp
import discord

from bot.artifacts import Artifacts
from bot.config import Config
from bot.delivery.outbox import Outbox
from bot.delivery.progress import Progress
from bot.delivery.sender import Sender
from bot.delivery.turns import Turns
from bot.errors import ConfigurationError, DiscordUnavailable
from bot.front.address import use_address
from bot.front.client import Bot
from bot.jobs import Job
from bot.lifetime import Running, Stop, Stopped, in_own_thread, run_to_the_end
from bot.store import Store
from bot.sweeper import Sweeper, bounds_of
from bot.worker.opening import open_engine, settle
from bot.worker.worker import Worker
from sdjax_engine.engine import Engine

log = logging.getLogger(__name__)

FLUSH_SECONDS = 10.0
CLOSE_SECONDS = 10.0
Report = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a bot consists of, before its engine is there."""

    store: Store
    artifacts: Artifacts
    client: Bot
    progress: Progress
    outbox: Outbox


def run_bot(config: Config) -> None:
    """Run the bot on Discord until SIGINT or SIGTERM; raises like `serve`."""

    async def main() -> None:
        stop = Stop()
        stop.listen()
        await serve(config, stop=stop, report=log.info)

    run_to_the_end(main())


async def serve(
    config: Config, *, stop: Stop, report: Report, ready: Callable[[], None] = lambda: None
) -> None:
    """Run every part until `stop`; `ready` is called once commands are answered and painted.

    Raises ConfigurationError, DiscordUnavailable, StoreUnavailable, UnreadableCheckpoint or EngineClosed.
    """
    token = config.discord.read_token()
    config = await in_own_thread(lambda: settle(config, report))
    async with AsyncExitStack() as stack:
        parts = await assemble(config, stack)
        await log_in(parts.client, token, config.discord.api_url)
        running = Running(stop)
        stack.push_async_callback(running.close)
        running.start(connect(parts.client), "gateway")
        running.start(parts.outbox.run(), "outbox")
        running.start(parts.progress.run(), "progress")
        bounds = bounds_of(config.retention)
        sweeper = Sweeper(parts.store, parts.artifacts, bounds, clock=time.time)
        running.start(sweeper.run(), "sweeper")
        try:
            engine = await running.wait_for(in_own_thread(lambda: open_engine(config, report)))
            stack.push_async_callback(close, engine)
            await running.wait_for(parts.client.wait_until_ready())
            lease = config.queue.lease_seconds
            name = socket.gethostname()
            worker = Worker(engine, parts.store, parts.artifacts, name=name, lease_seconds=lease)
            ready()
            await paint(worker, parts.outbox, running=running, stop=stop)
        except Stopped:
            log.info("stopped")


async def close(engine: Engine) -> None:
    """Close the engine, whose work is settled; devices that hang are not waited for."""
    await asyncio.wait({in_own_thread(lambda: engine.close(drain=False))}, timeout=CLOSE_SECONDS)


async def assemble(config: Config, stack: AsyncExitStack) -> Parts:
    """Open and connect everything but the engine; `stack` closes it again."""
    store = await Store.open(config.queue.database)
    stack.push_async_callback(store.close)
    artifacts = Artifacts(config.queue.artifacts)
    use_address(config.discord.api_url, config.discord.gateway_url)
    discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False  # this bot never speaks

    async def announce(job: Job) -> None:
        await progress.announce(job)

    client = await stack.enter_async_context(Bot(config, store, artifacts, announce=announce))
    turns, sender = Turns(), Sender(client, artifacts, clock=time.time)
    progress = Progress(store, sender, turns, clock=time.time)
    outbox = Outbox(store, sender, turns, clock=time.time, offers=client.parts.offers)
    return Parts(store=store, artifacts=artifacts, client=client, progress=progress, outbox=outbox)


async def paint(worker: Worker, outbox: Outbox, *, running: Running, stop: Stop) -> None:
    """Run the worker until `stop`, then let it finish and deliver what it was painting."""
    painting = running.start(worker.run(), "worker")
    try:
        await running.wait_for(asyncio.Event().wait())
    finally:
        await drain(worker, painting, outbox, stop)


async def drain(worker: Worker, painting: asyncio.Task[None], outbox: Outbox, stop: Stop) -> None:
    """Finish and deliver what is being painted, give back the rest; at once when asked again."""
    worker.drain()
    now = asyncio.create_task(stop.now.wait())
    await asyncio.wait({painting, now}, return_when=asyncio.FIRST_COMPLETED)
    painting.cancel()
    await asyncio.wait({painting})
    flushing = asyncio.create_task(outbox.flush(seconds=FLUSH_SECONDS))
    await asyncio.wait({flushing, now}, return_when=asyncio.FIRST_COMPLETED)
    flushing.cancel()
    now.cancel()


async def log_in(client: discord.Client, token: str, api_url: str) -> None:
    """Show Discord the token and register the commands, before anything heavy starts."""
    try:
        await client.login(token)
    except discord.LoginFailure:
        raise ConfigurationError(
            "Discord refuses the token: copy it again from the bot's page in the developer portal."
        ) from None
    except discord.HTTPException as error:
        words = str(error).partition("\n")[0].rstrip(".")
        raise DiscordUnavailable(f"Discord at {api_url} answers: {words}.") from error
    except (aiohttp.ClientError, OSError) as error:
        raise DiscordUnavailable(f"Discord cannot be reached at {api_url}: {error}.") from error


async def connect(client: discord.Client) -> None:
    """Stay connected to the gateway; discord.py reconnects by itself where that can help.

    Cancelling it closes the client: discord.py's own loop can miss a cancellation while it connects.
    """
    connection = asyncio.create_task(client.connect(), name="gateway connection")
    try:
        await asyncio.wait({connection})
    finally:
        await client.close()
        connection.cancel()
        (ending,) = await asyncio.gather(connection, return_exceptions=True)
    reason = f": {ending}" if isinstance(ending, discord.ConnectionClosed) else ""
    raise DiscordUnavailable(f"Discord has ended the connection{reason}.")
