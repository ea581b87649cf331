"""A short evening on which the shipped processes are killed and first answers to interactions get lost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from evening import Killer, alive, losing, typing, write_role
from evening_audit import ACCEPTED_SECONDS, audit, drained, dropped, painted, real_violations

from bot.sandbox.client import Member
from bot.sandbox.server import Sandbox
from bot.store import Store

KILLS = 5
SEED = 7
LOSS = 1.0  # seconds between two lost first answers, about
PAUSE = 1.0  # seconds between two actions of a person
LONGEST_WORK = 2.0  # seconds from a start to the kill


@pytest.mark.slow
async def test_kills_at_any_moment_deliver_every_accepted_job_exactly_once(
    lenient: Sandbox, tmp_path: Path, tiny_checkpoint: Path, compile_cache: Path
) -> None:
    common: dict[str, Any] = {"cache": compile_cache, "checkpoint": str(tiny_checkpoint), "forked": True}
    front = write_role(tmp_path, "front", lenient, **common)
    worker = write_role(tmp_path, "worker", lenient, **common)
    async with alive([front, worker]) as operator, Member(lenient.address, "Mina") as mina:
        store = await Store.open(f"sqlite+aiosqlite:///{tmp_path}/queue.sqlite3")
        try:
            async with (
                typing(lenient, seed=SEED, pause=PAUSE) as people,
                losing(lenient, seed=SEED, pause=LOSS) as lost,
            ):
                killer = Killer([front, worker], operator, lenient, seed=SEED)
                await killer.kill(KILLS, longest_pause=LONGEST_WORK)
                await painted(store, KILLS, seconds=120.0)  # on a slow machine the kills leave little time
            await asyncio.sleep(ACCEPTED_SECONDS)
            await drained(store, seconds=150.0)
            found = await audit(store, mina, people, worker_kills=worker.kills)
            forgotten = await dropped(store, people, front.killed_at)
        finally:
            await store.close()
    assert found.mistakes == []
    assert forgotten == []
    assert lost
    assert real_violations(lenient.violations) == []
    assert front.kills + worker.kills >= KILLS
    assert found.jobs["done"] >= KILLS, found
