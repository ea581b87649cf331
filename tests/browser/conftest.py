"""Chromium, a sandbox and a small bot behind it, for the tests of the page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from chromium import launched
from page_tools import DESKTOP, Clock, OpenPage
from playwright.async_api import Browser, ConsoleMessage, Page, Request, ViewportSize
from small_bot import PageBot

from bot.front.address import use_address
from bot.sandbox.server import Sandbox


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    async with launched() as browser:
        yield browser


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest_asyncio.fixture(loop_scope="session")
async def sandbox(clock: Clock) -> AsyncIterator[Sandbox]:
    async with Sandbox(clock=clock) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def bot(sandbox: Sandbox) -> AsyncIterator[PageBot]:
    """A real discord.py client, logged in and ready."""
    use_address(sandbox.api_url, sandbox.gateway_url)
    client = PageBot()
    async with client:
        running = asyncio.create_task(client.start("a-token"))
        await asyncio.wait_for(client.wait_until_ready(), 10)
        yield client
        await client.close()
        await running


@pytest_asyncio.fixture(loop_scope="session")
async def open_page(chromium: Browser, sandbox: Sandbox) -> AsyncIterator[OpenPage]:
    """Open the page as a member in a channel; a fault on any page, or a request elsewhere, fails the test."""
    faults: list[str] = []
    contexts = []

    def on_console(message: ConsoleMessage) -> None:
        # Chromium itself logs errors that the page handles: a refused command (400), and a WebSocket that is
        # lost or cannot be opened (with various messages).
        expected = ("Failed to load resource", "WebSocket connection to")
        if message.type in {"error", "warning"} and not any(words in message.text for words in expected):
            faults.append(message.text)

    def on_request(request: Request) -> None:
        if not request.url.startswith((sandbox.address, "data:", "blob:")):
            faults.append(f"a request to {request.url}")

    async def open_as(
        member: str = "mina", channel: str = "art", size: tuple[int, int] = DESKTOP, **options: Any
    ) -> Page:
        viewport = ViewportSize(width=size[0], height=size[1])
        context = await chromium.new_context(viewport=viewport, locale="en-GB", **options)
        contexts.append(context)
        page = await context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", on_console)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", on_request)
        await page.goto(f"{sandbox.address}/#{member}/{channel}")
        await page.get_by_role("heading", name=f"Welcome to #{channel}").wait_for()
        return page

    yield open_as
    for context in contexts:
        await context.close()
    assert faults == []
