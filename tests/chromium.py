"""Debian's Chromium, started as the tests of pages need it.

The headless shell is Chromium without a browser's window: the tests of pages take 40 s in it instead of 71.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from shutil import which
from typing import TYPE_CHECKING

import pytest_asyncio

if TYPE_CHECKING:
    from playwright.async_api import Browser

CHROMIUM = which("chromium-headless-shell") or "/usr/bin/chromium"
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--renderer-process-limit=1",  # pages of a context share a process, and none is started in advance
)


@asynccontextmanager
async def launched() -> AsyncIterator[Browser]:
    """A headless Chromium, closed at the end."""
    from playwright.async_api import async_playwright  # noqa: PLC0415 - few test processes need it

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield browser
        await browser.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    """One Chromium for all tests of the process: its start costs more than most tests."""
    async with launched() as browser:
        yield browser
