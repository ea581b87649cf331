"""A later version of the tables keeps what this one stored, on every database."""

from __future__ import annotations

import asyncio
import shutil
import signal
import time
from pathlib import Path

import pytest
import sqlalchemy as sa
from processes import end, in_tests, start
from recipes import ORIGIN, RECIPE, origin, recipe
from stores import TTL, Clock

from bot.domain.errors import StoreUnavailable
from bot.domain.jobs import State
from bot.store import Store
from bot.store.database import opening, upgrade

UPGRADING = """
import asyncio, pathlib, sys
from bot.store import Store
from bot.store.database import upgrade
upgrade.FOLDER = pathlib.Path(sys.argv[2])
asyncio.run(Store.open(sys.argv[1]))
"""


async def test_a_migration_keeps_every_row_and_the_older_version_refuses_the_result(
    database_url: str, clock: Clock, next_version: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await Store.open(database_url, clock=clock)
    painted = await store.jobs.enqueue(recipe(prompt="a boat"), ORIGIN)
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    await store.leases.complete(claim, artifact="aa/aa.png", seconds=2.0)
    waiting = await store.jobs.enqueue(recipe(prompt="a star"), origin(2))
    before = {job.id: await store.jobs.get(job.id) for job in (painted, waiting)}
    await store.close()

    with monkeypatch.context() as upgraded:
        upgraded.setattr(upgrade, "FOLDER", next_version)
        store = await Store.open(database_url, clock=clock)
        async with store.shared.database.read() as connection:
            rows = await connection.execute(sa.text("SELECT id, mood FROM jobs"))
            moods = {row.id: row.mood for row in rows}
        assert moods == {painted.id: "done", waiting.id: "calm"}
        assert {job_id: await store.jobs.get(job_id) for job_id in before} == before
        (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
        assert (await store.leases.complete(claim, artifact="bb/bb.png", seconds=2.0)).state is State.DONE
        delivered = await store.deliveries.claim("front", limit=9)
        assert [delivery.job.id for delivery in delivered] == [painted.id, waiting.id]
        await store.close()

    with pytest.raises(StoreUnavailable, match="newer version"):
        await Store.open(database_url)


@pytest.mark.postgres
async def test_an_upgrade_begins_anew_after_a_deadlock_with_a_process_at_work(
    postgres_url: str, next_version: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim locks images and then jobs; the migration locks jobs and then images."""
    store = await Store.open(postgres_url)
    monkeypatch.setattr(upgrade, "FOLDER", next_version)
    async with store.shared.database.write() as connection:
        await connection.execute(sa.text("LOCK TABLE images IN ROW EXCLUSIVE MODE"))
        upgrading = asyncio.create_task(Store.open(postgres_url))
        waits = sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'images'::regclass")
        while not await connection.scalar(waits):  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.01)
        await connection.execute(sa.text("LOCK TABLE jobs IN ROW EXCLUSIVE MODE"))
    upgraded = await upgrading
    async with upgraded.shared.database.read() as connection:
        assert await connection.scalar(sa.text("SELECT name FROM moods")) == "calm"
    assert (await store.jobs.enqueue(RECIPE, ORIGIN)).state is State.WAITING
    await upgraded.close()
    await store.close()


@pytest.mark.postgres
async def test_an_upgrade_during_a_backup_holds_up_no_reader_for_long_and_goes_through_after_it(
    postgres_url: str, next_version: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    running = await Store.open(postgres_url)
    job = await running.jobs.enqueue(RECIPE, ORIGIN)
    monkeypatch.setattr(upgrade, "LOCK_SECONDS", 1)
    monkeypatch.setattr(opening, "FIRST_PAUSE", 0.2)
    monkeypatch.setattr(opening, "LONGEST_PAUSE", 0.5)
    monkeypatch.setattr(upgrade, "FOLDER", next_version)
    count, longest = sa.text("SELECT count(*) FROM jobs"), 0.0
    async with running.shared.database.read() as backup:  # one snapshot, for as long as it copies pictures
        await backup.execute(count)
        starting = asyncio.create_task(Store.open(postgres_url))
        while caplog.text.count("A backup or another long transaction holds the tables") < 3:
            began = time.monotonic()
            async with running.shared.database.read() as connection:
                await connection.execute(count)
            longest = max(longest, time.monotonic() - began)
            await asyncio.sleep(0.01)
        assert not starting.done()
    upgraded = await starting
    assert 0.3 < longest < 3.0, "a reader waits behind the upgrade, for one lock's time"
    async with upgraded.shared.database.read() as connection:
        assert await connection.scalar(sa.text("SELECT mood FROM jobs")) == "calm"
    assert (await upgraded.jobs.get(job.id)).id == job.id
    await upgraded.close()
    await running.close()


async def test_a_process_that_is_killed_within_a_migration_leaves_the_tables_as_they_were(
    database_url: str, next_version: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await Store.open(database_url)
    job = await store.jobs.enqueue(RECIPE, ORIGIN)
    await store.close()
    migration, within = next_version / "versions" / "next_mood.py", tmp_path / "within"
    whole = migration.read_text()
    migration.write_text(
        f"import pathlib, time\n{whole}    pathlib.Path({str(within)!r}).touch()\n    time.sleep(600)\n"
    )
    program = in_tests(UPGRADING)
    killed = await start(
        database_url, str(next_version), err=tmp_path / "err", program=("-c", program), forked=True
    )
    async with asyncio.timeout(60):
        while not within.exists():  # noqa: ASYNC110 - another process makes the file
            await asyncio.sleep(0.01)
    await end(killed, signal.SIGKILL)
    store = await Store.open(database_url)  # the version before
    assert await store.jobs.get(job.id) == job
    await store.close()
    migration.write_text(whole)
    shutil.rmtree(migration.parent / "__pycache__", ignore_errors=True)
    monkeypatch.setattr(upgrade, "FOLDER", next_version)
    store = await Store.open(database_url)
    async with store.shared.database.read() as connection:
        assert await connection.scalar(sa.text("SELECT mood FROM jobs")) == "calm"
    assert await store.jobs.get(job.id) == job
    await store.close()


async def test_a_migration_that_fails_changes_nothing(
    database_url: str, clock: Clock, next_version: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await Store.open(database_url, clock=clock)
    job = await store.jobs.enqueue(RECIPE, ORIGIN)
    await store.close()
    broken = next_version / "versions" / "next_mood.py"
    broken.write_text(broken.read_text() + '    op.execute(sa.text("UPDATE nowhere SET mood = 1"))\n')
    with monkeypatch.context() as upgraded:
        upgraded.setattr(upgrade, "FOLDER", next_version)
        with pytest.raises((StoreUnavailable, sa.exc.DBAPIError)):
            await Store.open(database_url, clock=clock)
    store = await Store.open(database_url, clock=clock)
    assert await store.jobs.get(job.id) == job
    await store.close()
