"""The operators' page: beside a front, or alone on any machine that reaches the database."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress

from bot.app.monitoring import BacklogReader, Notes
from bot.app.operator import in_store
from bot.app.queue import Queue
from bot.config import Config
from bot.domain.errors import ConfigurationError
from bot.files.artifacts import Artifacts
from bot.front.services.from_configuration import operator_of
from bot.page.discord_api import opened
from bot.page.house import House
from bot.page.members import Members
from bot.page.server import serving
from bot.page.settings import settings_of
from bot.process.shutdown import BackgroundTasks, Shutdown, ShutdownRequested, run_process
from bot.store import Store
from bot.telemetry.metrics import Metrics
from bot.web.server import Check


async def open_page(config: Config, queue: Queue, stack: AsyncExitStack) -> None:
    """Serve the page beside a front, if a port is configured; `stack` ends it. Raises ConfigurationError."""
    if config.page.port:
        await _open(config, queue.store, queue.artifacts, queue.checks, stack)


async def _open(
    config: Config, store: Store, artifacts: Artifacts, checks: Mapping[str, Check], stack: AsyncExitStack
) -> None:
    secret = config.page.read_client_secret()
    discord = None
    if secret is not None:
        discord = await stack.enter_async_context(
            opened(
                api_url=config.discord.api_url,
                site_url=config.page.discord_url,
                token=config.discord.read_token(),
                client_secret=secret,
            )
        )
    house = House(
        store=store,
        artifacts=artifacts,
        config=config.page,
        usage=config.usage,
        notes=Notes(config, store).read,
        checks=checks,
        settings=settings_of(config, os.environ),
        operator_says=operator_of(config).said(1.0),
        discord=discord,
        members=None if discord is None else Members(discord),
    )
    await stack.enter_async_context(serving(house))


def run_page(config: Config) -> None:
    """Serve the page alone until SIGINT or SIGTERM; raises ConfigurationError or StoreUnavailable."""
    if not config.page.port:
        raise ConfigurationError("page.port is 0, so there is no page: choose a port, such as 8090.")
    run_process(lambda shutdown: _serve(config, shutdown))


async def _serve(config: Config, shutdown: Shutdown) -> None:
    store = await Store.open(config.queue.database)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(store.close)
        checks = {"store": BacklogReader(store.jobs, Metrics()).check}
        await _open(config, store, Artifacts(config.queue.artifacts), checks, stack)
        async with BackgroundTasks(shutdown) as tasks:
            with suppress(ShutdownRequested):
                await tasks.wait_for_shutdown()


def link_now(config: Config) -> str:
    """Return a link that opens the page once; raises ConfigurationError or StoreUnavailable."""
    page = config.page
    if not page.port:
        raise ConfigurationError("page.port is 0, so there is no page: choose a port, such as 8090.")
    secret = in_store(config, lambda store: store.logins.invite())
    return f"{page.url}/enter?link={secret}"
