"""People are answered while files and pictures occupy every thread that they may use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from front_tools import queued, text_of
from serving import Served, serving
from stores import hanging_files

from bot.config import Config
from bot.files.artifacts import Artifacts
from bot.sandbox.client import Member
from bot.sandbox.server import Sandbox
from bot.store import Store

MORE_THAN_ANY_POOL_HAS = 40


@pytest.fixture
async def by_name(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, discord_address: object
) -> AsyncIterator[Served]:
    """A bot that connects to Discord by a host name instead of an address."""
    sandbox._core.world.address = sandbox.address.replace("127.0.0.1", "localhost")
    async with serving(sandbox, store, artifacts, Config()) as served:
        yield served


async def test_a_command_is_acknowledged_while_every_file_hangs(
    by_name: Served, mina: Member, tmp_path: Path
) -> None:
    connector = by_name.bot.http.connector
    with hanging_files(tmp_path / "artifacts", count=MORE_THAN_ANY_POOL_HAS) as names:
        reading = [asyncio.create_task(by_name.artifacts.get(name)) for name in names]
        await asyncio.sleep(0)  # each has a thread or waits for one
        connector.clear_dns_cache()  # as time does
        by_name.sandbox.misbehave(drop_requests=1, on="/callback")  # a new look-up is needed
        assert "Queued, 1st" in text_of(await queued(mina, "a circle"))
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
    (waited,) = by_name.sandbox.acknowledgement_seconds
    assert waited is not None
