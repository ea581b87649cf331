"""Chromium, a sandbox and a small bot behind it, for the tests of the page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from page_tools import DESKTOP, Clock, OpenPage
from playwright.async_api import Browser, Page
from small_bot import PageBot
from tabs import Tabs

from bot.front.gateway.address import use_address
from bot.sandbox.server import Sandbox


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


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def tabs(chromium: Browser) -> Tabs:
    """The tabs of all tests: a new tab starts a process of Chromium, which takes half of a test's time."""
    return Tabs(chromium)


@pytest_asyncio.fixture(loop_scope="session")
async def open_page(tabs: Tabs, sandbox: Sandbox) -> AsyncIterator[OpenPage]:
    """Open the page as a member in a channel; a fault on any page, or a request elsewhere, fails the test.

    Each sandbox has a port of its own, so that a page finds nothing that an earlier test has stored.
    """
    tabs.begin(sandbox.address)

    async def open_as(
        member: str = "mina", channel: str = "art", size: tuple[int, int] = DESKTOP, **options: Any
    ) -> Page:
        page = await tabs.free(size, **options)
        await page.goto(f"{sandbox.address}/#{member}/{channel}")
        await page.get_by_role("heading", name=f"Welcome to #{channel}").wait_for()
        return page

    yield open_as
    await tabs.end()
    assert tabs.faults == []
