"""The composition root: the only place where the parts meet.

serve:  store ─ artifacts ─ front (Discord client) ─ progress ─ outbox ─ engine ─ worker
demo:   sandbox ─ serve, told nothing but the sandbox's address
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

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
from bot.store.store import Store
from bot.worker.worker import Worker
from sdjax_engine.config import Dtype, EngineConfig, ModelSpec
from sdjax_engine.engine import Engine

log = logging.getLogger(__name__)

FLUSH_SECONDS = 10.0
T = TypeVar("T")
Report = Callable[[str], None]


class Stop:
    """The wish to stop: the first time after finishing what is being painted, the second time now."""

    def __init__(self) -> None:
        self.draining = asyncio.Event()
        self.now = asyncio.Event()

    def ask(self) -> None:
        """Ask to stop; asking again asks to stop now."""
        (self.now if self.draining.is_set() else self.draining).set()

    def listen(self) -> None:
        """Ask at SIGINT and SIGTERM."""
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self.ask)


class Stopped(Exception):
    """What was waited for did not come, because it was asked to stop."""


class Services:
    """Tasks that run side by side until one fails or it is asked to stop."""

    def __init__(self, stop: Stop) -> None:
        self._stopping = asyncio.create_task(stop.draining.wait(), name="stop")
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run `work` beside the others."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        return task

    async def wait_for(self, wanted: Awaitable[T]) -> T:
        """`wanted`'s result; raises what a service failed with, or Stopped, if that comes first."""
        waiting = asyncio.ensure_future(wanted)
        await asyncio.wait({waiting, self._stopping, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
        for task in self._tasks:
            if task.done():
                task.result()
                raise Stopped
        if waiting.done():
            return waiting.result()
        waiting.cancel()
        raise Stopped

    async def close(self) -> None:
        """Cancel every service and wait for its end."""
        tasks = [self._stopping, *self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def run_bot(config: Config) -> None:
    """Run the bot on Discord until SIGINT or SIGTERM."""

    async def main() -> None:
        stop = Stop()
        stop.listen()
        await serve(config, stop=stop, report=log.info)

    run_to_the_end(main())


def run_to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Run `work`, and leave even where a thread still compiles, which nothing can interrupt."""
    asyncio.run(work)
    if any(thread.name == OPENING for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


async def serve(
    config: Config, *, stop: Stop, report: Report, ready: Callable[[], None] = lambda: None
) -> None:
    """Run every part until `stop`; `ready` is called once commands are answered and painted.

    Raises ConfigurationError, DiscordUnavailable, StoreUnavailable, UnreadableCheckpoint or EngineClosed.
    """
    token = config.discord.read_token()
    async with AsyncExitStack() as stack:
        store = await Store.open(config.queue.database)
        stack.push_async_callback(store.close)
        artifacts = Artifacts(config.queue.artifacts)
        use_address(config.discord.api_url, config.discord.gateway_url)
        client = Bot(config, store, artifacts, announce=lambda job: progress.announce(job))
        await stack.enter_async_context(client)
        turns, sender = Turns(), Sender(client, artifacts, clock=time.time)
        progress = Progress(store, sender, turns, clock=time.time)
        outbox = Outbox(store, sender, turns, clock=time.time)
        await log_in(client, token, config.discord.api_url)
        services = Services(stop)
        stack.push_async_callback(services.close)
        services.start(connect(client), "gateway")
        services.start(outbox.run(), "outbox")
        services.start(progress.run(), "progress")
        try:
            engine = await services.wait_for(open_engine(config, report))
            stack.push_async_callback(asyncio.to_thread, engine.close, drain=False)
            worker = Worker(
                engine, store, artifacts, name=socket.gethostname(), lease_seconds=config.queue.lease_seconds
            )
            painting = services.start(worker.run(), "worker")
            await services.wait_for(client.wait_until_ready())
            ready()
            try:
                await services.wait_for(asyncio.Event().wait())
            finally:
                await drain(worker, painting, outbox, stop)
        except Stopped:
            log.info("stopped")


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
            "Discord refuses the token: copy it again from the developer portal's page of the bot."
        ) from None
    except (aiohttp.ClientError, discord.HTTPException, OSError) as error:
        raise DiscordUnavailable(f"Discord cannot be reached at {api_url}: {error}.") from error


async def connect(client: discord.Client) -> None:
    """Stay connected to the gateway; discord.py reconnects by itself where that can help."""
    try:
        await client.connect()
    except discord.ConnectionClosed as error:
        raise DiscordUnavailable(f"Discord has closed the connection: {error}.") from error
    raise DiscordUnavailable("The connection to Discord has ended.")


OPENING = "engine opening"


def open_engine(config: Config, report: Report) -> Awaitable[Engine]:
    """Load and compile in a thread of its own, which a stop need not wait for."""
    models = tuple(
        ModelSpec(
            offer=model.offer,
            source=model.checkpoint,
            revision=model.revision or None,
            variant=model.variant or None,
        )
        for model in config.models
    )
    engine_config = EngineConfig(
        models=models,
        dtype=Dtype(config.engine.dtype),
        seats_per_device=config.engine.seats_per_device,
        cpu_devices=config.engine.cpu_devices,
        cache_dir=Path(config.engine.cache_dir) if config.engine.cache_dir else None,
    )
    opened: Future[Engine] = Future()

    def work() -> None:
        try:
            engine = Engine.open(engine_config, report=report)
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            opened.set_exception(error)
        else:
            opened.set_result(engine)

    threading.Thread(target=work, name=OPENING, daemon=True).start()
    return asyncio.wrap_future(opened)
