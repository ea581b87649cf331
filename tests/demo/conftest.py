"""One demo for all the tests that visit it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from running_demo import Demo, read_until_serving, start

START_SECONDS = 240.0
END_SECONDS = 60.0


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def demo(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Demo]:
    """A demo in an empty folder; it must end quietly, with status 0, when it is interrupted."""
    process = await start(tmp_path_factory.mktemp("demo"))
    try:
        async with asyncio.timeout(START_SECONDS):
            running = await read_until_serving(process)
        yield running
        process.send_signal(signal.SIGINT)
        _, err = await asyncio.wait_for(process.communicate(), END_SECONDS)
        assert (process.returncode, err.decode()) == (0, "")
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
