"""Backups of every database, restored into every database."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from backups import all_rows, backed_up, fill_every_table, restored, without
from postgres_server import PostgresServer
from recipes import ORIGIN, RECIPE, origin, recipe
from stores import TTL, Clock, OpenStore

from bot.backup import making
from bot.backup.manifest import Manifest
from bot.errors import MissingArtifact, StoreUnavailable
from bot.files import Artifacts, Files
from bot.jobs import State
from bot.store import Store, postgresql_server
from bot.store.migrate import make_tables
from bot.store.opening import make_database

pytestmark = pytest.mark.usefixtures("reflected_once")

ROOT = Path(__file__).parents[2]
OF_PROCESSES = {"processes", "workers", "offered_lanes", "duties", "previews"}
FREED = {"jobs": ["front"], "files": ["leased_until"], "deliveries": ["fencing_token", "next_try_at"]}
MOST = 10  # deletions beside a backup
KILLED = """
import asyncio, os, pathlib, signal, sys
from backups import restored
from bot.files import Artifacts
from bot.store import loading

async def kill(connection, *, now):
    os.kill(os.getpid(), signal.SIGKILL)

loading._release = kill
asyncio.run(restored(pathlib.Path(sys.argv[1]), sys.argv[2], Artifacts(sys.argv[3])))
"""


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
    bare_sqlite_url: str, target_url: str, places: Places
) -> None:
    database = await make_database(bare_sqlite_url)
    row = "INSERT INTO favourites (user_id, job_id) SELECT 7, id FROM jobs"
    async with database.write() as connection:
        await connection.run_sync(make_tables, "v010")
        await connection.execute(sa.text("INSERT INTO departures (guild_id, left_at) VALUES (7, 0.5)"))
        await connection.execute(sa.text(row))
    await database.close()
    made = await places.back_up(bare_sqlite_url)
    assert made.revision == "v010"
    assert "policies" not in made.tables
    await places.restore(target_url)
    after = await all_rows(target_url)
    assert after["departures"] == [{"guild_id": 7, "left_at": 0.5}]
    assert after["policies"] == []
    assert {row["name"] for row in after["accelerators"]} >= {"cpu"}  # a later migration adds it


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
    assert os.listdir(places.backups) == [".lock"]  # noqa: PTH208 - of a local folder


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

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    arguments = [sys.executable, "-c", KILLED, str(places.backups), target_url, str(tmp_path / "restored")]
    killed = await asyncio.create_subprocess_exec(*arguments, env=environment, stderr=subprocess.PIPE)
    _, said = await killed.communicate()
    assert killed.returncode == -signal.SIGKILL, said
    assert await places.empty.get(picture) == b"a picture"  # pictures come first

    await places.restore(target_url)
    again = await Store.open(target_url, clock=clock)
    try:
        assert (await again.jobs.get(job.id)).state is State.DONE
    finally:
        await again.close()


async def test_a_backup_beside_jobs_and_deletions_has_the_picture_of_every_row(
    database_url: str, open_store: OpenStore, places: Places
) -> None:
    store = await open_store()
    files, number, ended = Files(store.files, places.artifacts), 0, asyncio.Event()

    async def paint_and_delete() -> None:
        nonlocal number
        while not ended.is_set():
            number += 1
            await store.jobs.enqueue(RECIPE, origin(number))
            for claim in await store.leases.claim("worker", limit=1, ttl=TTL):
                name = await files.keep(f"picture {number}".encode(), "png")
                job = await store.leases.complete(claim, artifact=name, seconds=1.0)
                if number % 2:
                    await files.drop(await store.deliveries.delete_result(job.id, user_id=None))

    painting = asyncio.create_task(paint_and_delete())
    made = []
    while number < 30 or len(made) < 3:
        made.append(await places.back_up(database_url))
    ended.set()
    await painting
    for each in made:
        assert not each.lost
        assert len(each.pictures) >= each.tables["jobs"].rows // 2 - 1
    assert len(made[-1].pictures) > len(made[0].pictures)


class DeletedWhenRead(Artifacts):
    """A place whose new picture is deleted, or only lost, in the moment in which it is read, `most` times."""

    def __init__(self, url: str, *, most: int, is_row_kept: bool) -> None:
        super().__init__(url)
        self.store: Store
        self.left, self.is_row_kept = most, is_row_kept
        self.jobs: dict[str, str] = {}

    async def paint(self) -> None:
        job = await self.store.jobs.enqueue(RECIPE, origin(self.left))
        (claim,) = await self.store.leases.claim("worker", limit=1, ttl=TTL)
        name = await Files(self.store.files, self).keep(f"picture {self.left}".encode(), "png")
        await self.store.leases.complete(claim, artifact=name, seconds=1.0)
        self.jobs[name] = job.id

    async def get(self, name: str, *, tidy: bool = True) -> bytes:
        if self.left and (job := self.jobs.pop(name, "")):
            self.left -= 1
            if self.is_row_kept:
                await self.delete(name)
            else:
                files = await self.store.deliveries.delete_result(job, user_id=None)
                await Files(self.store.files, self).drop(files)
            await self.paint()
            raise MissingArtifact(name)
        return await super().get(name, tidy=tidy)


@pytest.mark.parametrize("is_row_kept", [False, True])
async def test_only_a_picture_whose_row_is_kept_is_lost(
    is_row_kept: bool, database_url: str, open_store: OpenStore, places: Places, tmp_path: Path
) -> None:
    artifacts = DeletedWhenRead(str(tmp_path / "artifacts"), most=MOST, is_row_kept=is_row_kept)
    artifacts.store = await open_store()
    await artifacts.paint()
    kept = (await backed_up(database_url, places.backups, artifacts)).manifest
    assert len(kept.lost) == (MOST if is_row_kept else 0)
    assert list(kept.pictures) == list(artifacts.jobs)
    assert kept.tables["jobs"].rows == MOST + 1


async def test_a_place_that_loses_every_new_picture_is_backed_up_without_them(
    sqlite_url: str, places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "LOOKS", 4)
    artifacts = DeletedWhenRead(str(tmp_path / "artifacts"), most=MOST, is_row_kept=True)
    artifacts.store = await Store.open(sqlite_url)
    await artifacts.paint()
    kept = (await backed_up(sqlite_url, places.backups, artifacts)).manifest
    await artifacts.store.close()
    assert len(kept.lost) == making.PASSES + 4
    assert not kept.pictures


async def test_a_picture_that_is_painted_again_and_deleted_again_is_not_lost(
    sqlite_url: str, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, copied, written = await Store.open(sqlite_url), making.collect, making._write_tables
    files, passes, left = Files(store.files, places.artifacts), 0, 1

    async def paint() -> str:
        job = await store.jobs.enqueue(RECIPE, origin(passes))
        (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
        name = await files.keep(b"a picture", "png")
        await store.leases.complete(claim, artifact=name, seconds=1.0)
        return job.id

    async def delete(job_id: str) -> None:
        await files.drop(await store.deliveries.delete_result(job_id, user_id=None))

    async def deleted_and_painted_again(*arguments: Any, **options: Any) -> set[str]:
        nonlocal job, passes
        passes += 1
        if passes > making.PASSES:
            return await copied(*arguments, **options)
        await delete(job)
        missing = await copied(*arguments, **options)
        job = await paint()
        return missing

    async def deleted_meanwhile(*arguments: Any) -> Any:
        nonlocal left
        if left:
            left -= 1
            await delete(job)
        return await written(*arguments)

    job = await paint()
    monkeypatch.setattr(making, "collect", deleted_and_painted_again)
    monkeypatch.setattr(making, "_write_tables", deleted_meanwhile)
    kept = await places.back_up(sqlite_url)
    await store.close()
    assert not kept.lost
    assert not kept.pictures


async def test_a_server_does_not_end_the_snapshot_of_a_backup_that_copies_slowly(
    postgres_url: str, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(postgresql_server._SETTINGS, "idle_in_transaction_session_timeout", "100ms")
    written = making._write_tables

    async def slowly(*arguments: Any) -> Any:
        await asyncio.sleep(0.3)
        return await written(*arguments)

    monkeypatch.setattr(making, "_write_tables", slowly)
    assert (await places.back_up(postgres_url)).tables


class PaintedAgain(Artifacts):
    """A place that has no picture until it was asked for it in every pass."""

    asked = 0

    async def get(self, name: str, *, tidy: bool = True) -> bytes:
        self.asked += 1
        if self.asked <= making.PASSES:
            raise MissingArtifact(name)
        return await super().get(name, tidy=tidy)


async def test_a_lost_picture_that_is_painted_again_meanwhile_is_in_the_backup(
    sqlite_url: str, places: Places, tmp_path: Path
) -> None:
    artifacts, store = PaintedAgain(str(tmp_path / "artifacts")), await Store.open(sqlite_url)
    await store.jobs.enqueue(RECIPE, ORIGIN)
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    name = await Files(store.files, artifacts).keep(b"a picture", "png")
    await store.leases.complete(claim, artifact=name, seconds=1.0)
    await store.close()
    kept = (await backed_up(sqlite_url, places.backups, artifacts)).manifest
    assert not kept.lost
    assert list(kept.pictures) == [name]
    assert artifacts.asked == making.PASSES + 1, "nothing is looked for again while the database waits"
