"""Membership of several processes: joining, refusal, and the end of a heartbeat."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bot.config import Config, QueueConfig
from bot.domain.errors import StoreUnavailable
from bot.membership.membership import Membership, joined
from bot.membership.processes import Process, Processes
from bot.store import Store
from bot.telemetry.metrics import WELL

BEAT, LIFE = 0.05, 0.5
DEADLINE = 20.0
WEB = Process(name="web-1", secret="a", role="front", machine="web", folder="s3://pictures")
OTHER = replace(WEB, name="web-2", secret="b")


def member(store: Store, process: Process) -> Membership:
    return Membership(Processes(store.shared), process, beat_seconds=BEAT, ttl_seconds=LIFE)


@contextlib.asynccontextmanager
async def beating(membership: Membership) -> AsyncIterator[None]:
    """Join and send heartbeats inside the block; end without leaving, as after a kill."""
    await membership.join()
    task = asyncio.create_task(membership.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not what():  # noqa: ASYNC110 - the database sets no event
            await asyncio.sleep(BEAT / 5)


async def test_fronts_count_each_other_and_no_longer_a_killed_one(store: Store) -> None:
    first = member(store, WEB)
    async with beating(first):
        async with (
            beating(member(store, OTHER)),
            beating(member(store, replace(WEB, name="w", role="worker"))),
        ):
            await until(lambda: first.fronts == 2)
        await until(lambda: first.fronts == 1)


async def test_beside_a_process_of_the_same_name_on_another_machine_the_next_number_is_taken(
    store: Store, tmp_path: Path
) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/queue.sqlite3"
    config = Config(queue=QueueConfig(database=url, artifacts=str(tmp_path / "pictures")))
    async with joined(config, Processes(store.shared), "front") as here:
        names = [here.name]
    host = names[0].removesuffix("-1")
    stranger = Process(
        name=names[0],
        secret="of another machine",
        role="front",
        machine=host,
        folder=f"folder {(tmp_path / 'pictures' / '.place').read_text()}",
    )
    assert await Processes(store.shared).join(stranger, ttl=60.0) == []
    async with joined(config, Processes(store.shared), "front") as here:
        assert here.name == f"{host}-2"
    assert [process.name for process in await Processes(store.shared).living()] == [stranger.name]


async def test_a_database_that_takes_no_heartbeat_is_not_well_until_it_does(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: object, **__: object) -> bool:
        raise StoreUnavailable("The database is read-only.")

    membership = member(store, WEB)

    async def answers(wanted: str) -> None:
        async with asyncio.timeout(DEADLINE):
            while await membership.health() != wanted:  # noqa: ASYNC110 - the database sets no event
                await asyncio.sleep(BEAT / 5)

    async with beating(membership):
        await answers(WELL)
        with monkeypatch.context() as broken:
            broken.setattr(Processes, "beat", refused)
            await answers("The database is read-only.")
        await answers(WELL)
