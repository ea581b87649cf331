"""PostgreSQL restarted and cut off under the shipped processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from postgres_server import PostgresServer
from scene import FaultScene, on_stage

from bot.sandbox.server import Sandbox

pytestmark = [pytest.mark.slow, pytest.mark.postgres]
CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sdjax-bot'"
BEGUN = "the queue cannot be used: "
PLACE = "postgresql+asyncpg://"
MOST_LINES = 5  # one outage, a cut connection of wake-ups, and perhaps an outage of a cut connection


@pytest.fixture
async def scene(
    sandbox: Sandbox, tmp_path: Path, tiny_checkpoint: Path, compile_cache: Path, postgres_url: str
) -> AsyncIterator[FaultScene]:
    database = f"{postgres_url}&timeout=2&command_timeout=5"
    common = {"cache": compile_cache, "checkpoint": tiny_checkpoint, "database": database}
    async with on_stage(sandbox, tmp_path, **common) as scene:
        yield scene


async def test_a_server_that_is_cut_off_and_restarted_loses_nothing(
    scene: FaultScene, postgres_server: PostgresServer
) -> None:
    asked = [await scene.ask(steps=48, variants=4) for _ in range(3)]
    await scene.counted(scene.front, "sdjax_images_running", 1)
    postgres_server.execute(CUT)
    asked.append(await scene.ask())
    await scene.queued(asked[-1])
    postgres_server.stop()
    try:
        await scene.front.unwell(scene.operator)
        for role in (scene.front, scene.worker):
            await scene.logged(role, BEGUN)
        await asyncio.sleep(2.0)  # of an outage in which every loop fails
    finally:
        postgres_server.start()
    await scene.front.well(scene.operator)
    asked.append(await scene.ask())
    await scene.delivered(*asked)
    assert await scene.metric(scene.worker, 'sdjax_images_total{event="taken_back"}') == 0
    for role in (scene.front, scene.worker):
        told = [line for line in role.logs().splitlines() if PLACE in line or " queue " in line]
        assert len(told) <= MOST_LINES, told
        assert 1 <= sum(BEGUN in line for line in told) <= 2, told
