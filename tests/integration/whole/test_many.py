"""The shipped roles as separate processes on one PostgreSQL: two fronts, two workers."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa
from collector import Collector, collecting
from processes import BOT, SLOW_BOT, Bot, Ended, end, running, sentences, start, write_config
from test_restart import START_SECONDS, Message, assert_each_once, with_pictures

from bot.domain.jobs import State
from bot.sandbox.client import Member
from bot.sandbox.community import GUILD_ID
from bot.sandbox.server import Sandbox
from bot.store import Store
from bot.store.tables.queue import images

pytestmark = pytest.mark.postgres

SHARDS = 3  # with two, the first would have both the server and direct messages
OF_SERVER = (GUILD_ID >> 22) % SHARDS
JOBS = 2  # in work at a time in the server, and as many in direct messages
LONG = {"steps": 20, "variants": 4}
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
        with config.open("a") as file:
            file.write('\n[log]\nformat = "json"\n[traces]\nexport = true\n')
        return config

    return write


def shard(number: int) -> str:
    return f"shard_count = {SHARDS}\nshard_ids = [{number}]"


async def shards_connected(sandbox: Sandbox) -> None:
    async with asyncio.timeout(START_SECONDS):
        while sandbox.shards != {(0, SHARDS), (OF_SERVER, SHARDS)}:  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.05)


async def waiting_for_a_worker(fronts: Sequence[Bot]) -> None:
    """Wait until each front says that it waits: a worker may otherwise be there before it looks."""
    async with asyncio.timeout(START_SECONDS):
        words = "waiting for a worker to publish what tiny offers"
        while not all(words in bot.err.read_text() for bot in fronts):  # noqa: ASYNC110 - other processes
            await asyncio.sleep(0.05)


async def refused(config: Path) -> str:
    """The sentence with which a front's start is refused as a mistake in its configuration."""
    ended = await end(
        await start("front", "--config", str(config), err=config.with_suffix(".err"), forked=True)
    )
    assert ended.status == 2, ended.err
    (sentence,) = sentences(ended.err)
    return sentence


class Asking:
    """Mina, who requests pictures in each place while fewer than JOBS of hers are active there."""

    def __init__(self, mina: Member) -> None:
        self._mina = mina
        self._asked: dict[str, list[str]] = {place: [] for place in PLACES}

    @property
    def count(self) -> int:
        return sum(map(len, self._asked.values()))

    async def go_on(self) -> None:
        for place, asked in self._asked.items():
            while len(asked) - len(with_pictures(await self._mina.messages(place))) < JOBS:
                number = len(asked)
                prompt = f"a red circle {number}"
                asked.append(await self._mina.imagine(prompt=prompt, seed=number, channel=place, **LONG))

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Keep asking until a condition holds, so that work is left even on a fast machine."""
        async with asyncio.timeout(START_SECONDS):
            while not await holds():
                await self.go_on()
                await asyncio.sleep(0.05)

    async def assert_each_delivered_once(self) -> None:
        for place, asked in self._asked.items():
            await self._mina.wait_for(partial(_are_there, asked), channel=place, timeout=START_SECONDS)
            assert_each_once(await self._mina.messages(place), asked)


def _are_there(asked: list[str], messages: list[Message]) -> bool:
    return len(with_pictures(messages)) >= len(asked)


async def at_work(store: Store, workers: int) -> bool:
    """Whether so many workers hold images."""
    holders = sa.select(images.c.worker).where(images.c.state == State.RUNNING).distinct()
    async with store.shared.database.read() as connection:
        return len(list(await connection.scalars(holders))) == workers


@pytest.fixture
async def collector(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Collector]:
    async with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
        yield collector


def assert_each_job_has_one_trace(collector: Collector, jobs: int) -> None:
    traces = collector.traces()
    assert len(traces) == jobs
    for spans in traces.values():
        (root,) = [span for span in spans if not span.parent]
        assert {span.parent for span in spans if span is not root} <= {span.id for span in spans}
        painted = [span for span in spans if span.attributes.get("sdjax.end") == "painted"]
        assert len(painted) == LONG["variants"]
        assert all("-worker-" in span.process for span in painted)
        assert root.process in {span.process for span in spans if span.name == "deliver"}


def assert_lines_are_objects(ended: Sequence[Ended]) -> None:
    """Check that each log line is an object with process and version; images' have lane and durations."""
    lines = [json.loads(line) for process in ended for line in process.err.splitlines()]
    assert not [line for line in lines if not (line["process"] and line["version"])]
    painted = [line for line in lines if "is painted" in line["message"]]
    assert painted
    assert {line["lane"] for line in painted} == {"tiny:64x64:guided"}
    stages = {"queue", "admit", "denoise", "decode", "encode", "total"}
    assert not [line for line in painted if not stages <= line["durations"].keys()]


@pytest.mark.slow
async def test_every_result_is_delivered_once_although_a_worker_is_replaced(
    sandbox: Sandbox, configured: WriteConfig, postgres_url: str, collector: Collector
) -> None:
    stack = AsyncExitStack()
    store = await Store.open(postgres_url)
    stack.push_async_callback(store.close)

    async def run(role: str, name: str, **values: str) -> Bot:
        program = SLOW_BOT if role == "worker" else BOT
        return await stack.enter_async_context(
            running(configured(name, **values), role=role, program=program)
        )

    async with Member(sandbox.address, "Mina") as mina, stack:
        fronts = [
            await run("front", "first", front=shard(0)),
            await run("front", "server", front=shard(OF_SERVER)),
        ]
        await waiting_for_a_worker(fronts)
        old = await run("worker", "old")
        await shards_connected(sandbox)
        asking = Asking(mina)
        await asking.until(lambda: at_work(store, 1))
        new = await run("worker", "new")
        await asking.until(lambda: at_work(store, 2))
        replaced = await end(old, signal.SIGTERM)
        await asking.go_on()  # for the new worker only
        assert "in another place" in await refused(configured("astray", pictures="elsewhere", front=shard(1)))
        await asking.assert_each_delivered_once()
        ended = [replaced, *[await end(bot, signal.SIGTERM) for bot in (new, *fronts)]]
    assert [process.status for process in ended] == [0, 0, 0, 0], ended
    assert not any("Traceback" in process.err for process in ended), ended
    assert_lines_are_objects(ended)
    assert_each_job_has_one_trace(collector, asking.count)
