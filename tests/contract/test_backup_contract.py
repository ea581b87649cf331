"""Backups of every database, restored into every database."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from backups import all_rows, backed_up, fill_every_table, restored, without
from postgres_server import PostgresServer
from processes import end, in_tests, start
from recipes import ORIGIN, RECIPE, origin, recipe
from stores import TTL, Clock

from bot.backup import making
from bot.backup.manifest import Manifest
from bot.domain.errors import StoreUnavailable
from bot.domain.jobs import State
from bot.files import Artifacts, Files
from bot.store import Store
from bot.store.database import postgresql_server, upgrade

pytestmark = pytest.mark.usefixtures("reflected_once")

OF_PROCESSES = {"processes", "workers", "offered_lanes", "duties", "previews", "logins"}
FREED = {"jobs": ["front"], "files": ["leased_until"], "outbox": ["fencing_token", "next_try_at", "front"]}
KILLED = in_tests("""
import asyncio, os, pathlib, signal, sys
from backups import restored
from bot.backup import restoring
from bot.files import Artifacts

bring_back = restoring.bring_back

async def bring_back_and_die(*arguments):
    await bring_back(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)

restoring.bring_back = bring_back_and_die
asyncio.run(restored(pathlib.Path(sys.argv[1]), sys.argv[2], Artifacts(sys.argv[3])))
""")


@dataclass(frozen=True, kw_only=True)
class Places:
    """The pictures of the queue, those of the restored queue, and the folder of backups."""

    artifacts: Artifacts
    empty: Artifacts
    backups: Path

    async def back_up(self, url: str) -> Manifest:
        return (await backed_up(url, self.backups, self.artifacts)).manifest

    async def restore(self, url: str) -> None:
        await restored(self.backups, url, self.empty)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    artifacts, empty = (Artifacts(str(tmp_path / name)) for name in ("artifacts", "restored"))
    return Places(artifacts=artifacts, empty=empty, backups=tmp_path / "backups")


@pytest.fixture
def elsewhere(tmp_path: Path) -> str:
    return f"sqlite+aiosqlite:///{tmp_path}/elsewhere/queue.sqlite3"


@pytest.fixture
def another_postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.database(template="template0") as name:
        yield postgres_server.url(name)


@pytest.fixture(params=["elsewhere", pytest.param("another_postgres_url", marks=pytest.mark.postgres)])
def target_url(request: pytest.FixtureRequest) -> str:
    """The address of an empty database, once for each kind."""
    url: str = request.getfixturevalue(request.param)
    return url


async def test_every_row_comes_back_whatever_the_kind_of_database(
    database_url: str, target_url: str, store: Store, places: Places
) -> None:
    await fill_every_table(store)
    before = await all_rows(database_url)
    assert all(before.values())
    await places.back_up(database_url)
    await places.restore(target_url)
    after = await all_rows(target_url)
    assert after.keys() == before.keys()
    for name, rows in before.items():
        gone = FREED.get(name, [])
        expected = [] if name in OF_PROCESSES else without(rows, *gone)
        assert without(after[name], *gone) == expected, name


async def test_the_restored_queue_goes_on(
    sqlite_url: str, target_url: str, clock: Clock, places: Places
) -> None:
    store = await Store.open(sqlite_url, clock=clock)
    files = Files(store.files, places.artifacts)
    painted = await store.jobs.enqueue(RECIPE, ORIGIN)
    await store.deliveries.adopt("old front", [painted.id])
    (claim,) = await store.leases.claim("old worker", limit=1, ttl=TTL)
    picture = await files.keep(b"a picture", "png")
    await store.leases.complete(claim, artifact=picture, seconds=1.0)
    running = await store.jobs.enqueue(recipe(variants=2), origin(2))
    (held, _) = await store.leases.claim("old worker", limit=2, ttl=TTL)
    await store.leases.heartbeat({held: 3}, ttl=TTL, begun=[held])

    await store.close()
    made = await places.back_up(sqlite_url)
    await places.restore(target_url)

    assert made.pictures == {picture: len(b"a picture")}
    assert await places.empty.get(picture) == b"a picture"
    again = await Store.open(target_url, clock=clock)
    try:
        (delivery,) = await again.deliveries.claim("new front", limit=9)
        assert delivery.job.id == painted.id
        assert (await again.jobs.get(running.id)).state is State.WAITING
        for claimed in await again.leases.claim("new worker", limit=9, ttl=TTL):
            assert claimed.job_id == running.id
            await again.leases.complete(claimed, artifact=picture, seconds=1.0)
        assert (await again.jobs.get(running.id)).state is State.DONE
        async with again.shared.database.read() as connection:
            lost = await connection.scalars(sa.text("SELECT worker_deaths + leases_lost FROM images"))
            assert set(lost) == {0}
        assert (await again.jobs.enqueue(RECIPE, origin(3))).id not in (painted.id, running.id)
    finally:
        await again.close()


async def test_a_backup_of_an_older_version_is_brought_up_to_date(
    sqlite_url: str, target_url: str, places: Places, next_version: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await Store.open(sqlite_url)
    job = await store.jobs.enqueue(RECIPE, ORIGIN)
    await store.close()
    made = await places.back_up(sqlite_url)
    monkeypatch.setattr(upgrade, "FOLDER", next_version)
    await places.restore(target_url)
    after = await all_rows(target_url)
    assert "moods" not in made.tables
    assert after["moods"] == [{"name": "calm"}]
    assert [(row["id"], row["mood"]) for row in after["jobs"]] == [(job.id, "calm")]


async def test_a_queue_in_use_and_a_database_of_a_newer_version_are_refused(
    database_url: str, store: Store, places: Places
) -> None:
    await places.back_up(database_url)
    with pytest.raises(StoreUnavailable, match="is not empty: let queue"):
        await places.restore(database_url)
    async with store.shared.database.write() as connection:
        await connection.execute(sa.text("UPDATE alembic_version SET version_num = 'later'"))
    with pytest.raises(StoreUnavailable, match="its tables are of later"):
        await places.back_up(database_url)


async def test_a_database_without_a_queue_is_not_backed_up(bare_database_url: str, places: Places) -> None:
    with pytest.raises(StoreUnavailable, match="holds no queue"):
        await places.back_up(bare_database_url)
    assert not places.backups.exists()


async def test_a_restore_that_is_killed_can_be_repeated(
    sqlite_url: str, target_url: str, clock: Clock, tmp_path: Path, places: Places
) -> None:
    store = await Store.open(sqlite_url, clock=clock)
    job = await store.jobs.enqueue(RECIPE, ORIGIN)
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    picture = await Files(store.files, places.artifacts).keep(b"a picture", "png")
    await store.leases.complete(claim, artifact=picture, seconds=1.0)
    await store.close()
    await places.back_up(sqlite_url)

    arguments = (str(places.backups), target_url, str(tmp_path / "restored"))
    killed = await end(await start(*arguments, err=tmp_path / "err", program=("-c", KILLED), forked=True))
    assert killed.status == -signal.SIGKILL, killed.err
    assert await places.empty.get(picture) == b"a picture"  # pictures are stored before the commit

    await places.restore(target_url)
    again = await Store.open(target_url, clock=clock)
    try:
        assert (await again.jobs.get(job.id)).state is State.DONE
    finally:
        await again.close()


async def test_a_server_does_not_end_the_snapshot_of_a_backup_that_copies_slowly(
    postgres_url: str, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(postgresql_server._SETTINGS, "idle_in_transaction_session_timeout", "600ms")
    written = making._write_tables

    async def slowly(*arguments: Any) -> Any:
        await asyncio.sleep(1.0)
        return await written(*arguments)

    monkeypatch.setattr(making, "_write_tables", slowly)
    assert (await places.back_up(postgres_url)).tables
