"""A bot goes on from a backup, on the other kind of database: a real worker paints what waited."""

from __future__ import annotations

from pathlib import Path

import pytest
from backups import backed_up, restored
from serving import serving, working
from test_restart import assert_each_once, delivered

from bot.config import Config, ModelConfig
from bot.files.artifacts import Artifacts
from bot.sandbox.client import Member
from bot.sandbox.server import Sandbox
from bot.store import Store
from bot.worker.worker import Worker
from sdjax_engine.engine import Engine

CONFIG = Config(models=(ModelConfig(name="tiny", sizes=("64x64",), num_inference_steps=2),))
REQUESTS = 4


@pytest.mark.postgres
async def test_a_bot_restored_into_postgresql_paints_what_waited_and_delivers_each_result_once(
    sandbox: Sandbox,
    tmp_path: Path,
    sqlite_url: str,
    bare_postgres_url: str,
    tiny_engine: Engine,
    *,
    discord_address: object,
) -> None:
    place, lost, new = tmp_path / "backups", *(Artifacts(str(tmp_path / name)) for name in ("lost", "new"))
    async with Member(sandbox.address, "Mina") as mina:
        store = await Store.open(sqlite_url)
        async with serving(sandbox, store, lost, CONFIG, name="lost front") as served:
            interactions = [await mina.imagine(prompt=f"a red circle {number}") for number in range(REQUESTS)]
            for interaction in interactions:
                await mina.message_of(interaction)
            await served.paint_one()
            await delivered(mina, 1)
            await store.leases.claim("lost worker", limit=1, ttl=3600.0)
            made = await backed_up(sqlite_url, place, lost)
            await served.paint_one()  # and delivered, after the backup
            await delivered(mina, 2)
        await store.close()
        assert (made.manifest.tables["jobs"].rows, len(made.manifest.pictures)) == (REQUESTS, 1)
        await restored(place, bare_postgres_url, new)

        store = await Store.open(bare_postgres_url)
        worker = Worker(tiny_engine, store, new, name="new worker", lease_seconds=30.0)
        async with serving(sandbox, store, new, CONFIG, name="new front"), working(worker):
            await delivered(mina, REQUESTS)
        counts = await store.jobs.counts()
        await store.close()
        assert {state.value: count for state, count in counts.items() if count} == {"done": REQUESTS}
        assert_each_once(await mina.messages(), interactions)
