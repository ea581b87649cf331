"""The shipped roles as processes of their own, on one PostgreSQL: two fronts, two workers."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from processes import Bot, end, running, sentences, start, write_config
from test_restart import START_SECONDS, assert_each_once, with_pictures

from bot.sandbox.client import Member
from bot.sandbox.community import GUILD_ID
from bot.sandbox.server import Sandbox

pytestmark = pytest.mark.postgres

SHARDS = 3  # of two, both the server and direct messages would be the first one's
OF_SERVER = (GUILD_ID >> 22) % SHARDS
JOBS = 2  # in the server, and as many in direct messages
LONG = {"steps": 40, "variants": 4}
PLACES = ("art", "dm")
WriteConfig = Callable[..., Path]


@pytest.fixture
def configured(
    sandbox: Sandbox, tmp_path: Path, postgres_url: str, tiny_checkpoint: Path, compile_cache: Path
) -> WriteConfig:
    """Writes the configuration of one of several processes."""

    def write(name: str, *, pictures: str = "pictures", front: str | None = None) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        config = write_config(
            folder,
            api_url=sandbox.api_url if front is not None else "http://127.0.0.1:9/api/v10",
            gateway_url=sandbox.gateway_url if front is not None else "ws://127.0.0.1:9",
            checkpoint=tiny_checkpoint if front is None else folder / "not on this machine",
            cache=compile_cache,
            discord=front or "",
            database=postgres_url,
            artifacts=tmp_path / pictures,
        )
        if front is None:
            (folder / "token").unlink()  # a worker needs none
        return config

    return write


def shard(number: int) -> str:
    return f"shard_count = {SHARDS}\nshard_ids = [{number}]"


async def shards_connected(sandbox: Sandbox) -> None:
    async with asyncio.timeout(START_SECONDS):
        while sandbox.shards != {(0, SHARDS), (OF_SERVER, SHARDS)}:  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.05)


async def refused(config: Path) -> str:
    """The sentence with which a front's start is refused as a mistake in its configuration."""
    ended = await end(await start("front", "--config", str(config), err=config.with_suffix(".err")))
    assert ended.status == 2, ended.err
    (sentence,) = sentences(ended.err)
    return sentence


async def delivered(mina: Member, count: int) -> None:
    """Wait until so many pictures are shown in each place."""
    for place in PLACES:
        await mina.wait_for(
            lambda messages: len(with_pictures(messages)) >= count, channel=place, timeout=START_SECONDS
        )


@pytest.mark.slow
async def test_everything_is_delivered_once_though_a_worker_is_replaced_in_the_middle(
    sandbox: Sandbox, configured: WriteConfig
) -> None:
    stack = AsyncExitStack()

    async def run(role: str, name: str, **values: str) -> Bot:
        return await stack.enter_async_context(running(configured(name, **values), role=role))

    async with Member(sandbox.address, "Mina") as mina, stack:
        fronts = [
            await run("front", "first", front=shard(0)),
            await run("front", "server", front=shard(OF_SERVER)),
        ]
        old = await run("worker", "old")
        await shards_connected(sandbox)
        asked = [
            (place, await mina.imagine(prompt=f"a red circle {number}", seed=number, channel=place, **LONG))
            for number in range(JOBS)
            for place in PLACES
        ]
        await mina.wait_for(with_pictures, timeout=START_SECONDS)
        new = await run("worker", "new")
        replaced = await end(old, signal.SIGTERM)
        assert not all([len(with_pictures(await mina.messages(place))) == JOBS for place in PLACES])
        assert "in another place" in await refused(configured("astray", pictures="elsewhere", front=shard(1)))
        await delivered(mina, JOBS)
        for place in PLACES:
            assert_each_once(
                await mina.messages(place), [interaction for where, interaction in asked if where == place]
            )
        ended = [replaced, *[await end(bot, signal.SIGTERM) for bot in (new, *fronts)]]
    assert [process.status for process in ended] == [0, 0, 0, 0], ended
    assert not any("Traceback" in process.err for process in ended), ended
    assert any("waiting for a worker to say what tiny offers" in process.err for process in ended)
