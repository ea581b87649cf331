"""One demo for all the tests that visit it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from processes import START_SECONDS, Ended, end
from running_demo import Demo, read_until_serving, running_demo


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def demo(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Demo]:
    """A demo in an empty folder; it must end quietly, with status 0, when it is interrupted."""
    async with running_demo(tmp_path_factory.mktemp("demo")) as bot:
        async with asyncio.timeout(START_SECONDS):
            running = await read_until_serving(bot)
        yield running
        assert await end(bot, signal.SIGINT) == Ended(status=0, err="")
