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
from sqlalchemy.ext.asyncio import AsyncConnection
from stores import TTL, Clock

from bot.domain.errors import StoreUnavailable
from bot.domain.holds import Appeal, Cause, Hold, Outcome, Ruling
from bot.domain.jobs import Showing, State
from bot.store import Store, migrate
from bot.store.database import opening
from bot.store.rows.audit import By

NEXT_MIGRATION = '''
"""A column that the next version has."""

import sqlalchemy as sa
from alembic import op

revision = "next"
down_revision = "{latest}"


def upgrade():
    op.add_column("jobs", sa.Column("mood", sa.String(length=16), nullable=False, server_default="calm"))
    op.execute(sa.text("UPDATE jobs SET mood = 'done' WHERE finished_at IS NOT NULL"))
'''


UPGRADING = """
import asyncio, pathlib, sys
from bot.store import Store, migrate
migrate.FOLDER = pathlib.Path(sys.argv[2])
asyncio.run(Store.open(sys.argv[1]))
"""


@pytest.fixture
def next_version(tmp_path: Path) -> Path:
    """The migrations of this version and one more."""
    folder = tmp_path / "migrations"
    shutil.copytree(migrate.FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    latest = max(file.name[:4] for file in (folder / "versions").glob("v[0-9]*.py"))
    (folder / "versions" / "next_mood.py").write_text(NEXT_MIGRATION.format(latest=latest))
    return folder


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
        upgraded.setattr(migrate, "FOLDER", next_version)
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


async def back_to_v021(connection: AsyncConnection) -> None:
    """Make the tables as they were before each picture had its ruling."""
    for back in (
        "ALTER TABLE images DROP COLUMN ruling",
        "ALTER TABLE images DROP COLUMN ruling_reason",
        "ALTER TABLE jobs DROP COLUMN appeal",
        "ALTER TABLE reviews DROP COLUMN words",
        "ALTER TABLE run_times DROP COLUMN beside_steps",
        "UPDATE alembic_version SET version_num = 'v021'",
    ):
        await connection.execute(sa.text(back))


@pytest.mark.parametrize("last", ["rejected", "declined", "expired", "shown", None])
async def test_pictures_rejected_before_each_had_its_ruling_stay_rejected(
    database_url: str, clock: Clock, last: str | None
) -> None:
    """`last` is the job's ruling before the upgrade: a later decision may have replaced the rejection."""
    store = await Store.open(database_url, clock=clock)
    job = await store.jobs.enqueue(recipe(variants=2), origin(1), hold=Hold(cause=Cause.MODE))
    for number, claim in enumerate(await store.leases.claim("worker", limit=2, ttl=TTL)):
        showing = Showing.SPOILER if number else Showing.SHOW
        await store.leases.complete(claim, artifact=f"aa/{number}.png", seconds=2.0, showing=showing)
    (review,) = await store.reviews.waiting(job.origin.guild_id or 0, limit=9)
    moderator = By(actor_id=9, guild_id=job.origin.guild_id or 0, reason="too dark")
    await store.reviews.decide(review.id, Outcome.REJECTED, moderator)
    await store.appeals.appeal_pictures(job.id, job.origin.user_id)
    rejected = Ruling(outcome=Outcome.REJECTED, reason="too dark")
    before = await store.jobs.get(job.id)
    async with store.shared.database.write() as connection:
        await back_to_v021(connection)
        reason = "too dark" if last == "rejected" else ""
        later = sa.text("UPDATE jobs SET ruling = :last, ruling_reason = :reason")
        await connection.execute(later, {"last": last, "reason": reason})
    await store.close()
    store = await Store.open(database_url, clock=clock)
    after = await store.jobs.get(job.id)
    assert after.images == before.images
    assert [image.ruling for image in after.images] == [rejected, rejected]
    assert after.appeal is Appeal.OPEN
    await store.close()


@pytest.mark.postgres
async def test_an_upgrade_begins_anew_after_a_deadlock_with_a_process_at_work(postgres_url: str) -> None:
    """A claim locks images and then jobs; the migration locks jobs and then images."""
    store = await Store.open(postgres_url)
    async with store.shared.database.write() as connection:
        await back_to_v021(connection)
    async with store.shared.database.write() as connection:
        await connection.execute(sa.text("LOCK TABLE images IN ROW EXCLUSIVE MODE"))
        upgrading = asyncio.create_task(Store.open(postgres_url))
        waits = sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'images'::regclass")
        while not await connection.scalar(waits):  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.01)
        await connection.execute(sa.text("LOCK TABLE jobs IN ROW EXCLUSIVE MODE"))
    upgraded = await upgrading
    assert (await upgraded.jobs.enqueue(RECIPE, ORIGIN)).appeal is None
    await upgraded.close()
    await store.close()


@pytest.mark.postgres
async def test_an_upgrade_during_a_backup_holds_up_no_reader_for_long_and_goes_through_after_it(
    postgres_url: str, next_version: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    running = await Store.open(postgres_url)
    job = await running.jobs.enqueue(RECIPE, ORIGIN)
    monkeypatch.setattr(migrate, "LOCK_SECONDS", 1)
    monkeypatch.setattr(opening, "FIRST_PAUSE", 0.2)
    monkeypatch.setattr(opening, "LONGEST_PAUSE", 0.5)
    monkeypatch.setattr(migrate, "FOLDER", next_version)
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
    monkeypatch.setattr(migrate, "FOLDER", next_version)
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
        upgraded.setattr(migrate, "FOLDER", next_version)
        with pytest.raises((StoreUnavailable, sa.exc.DBAPIError)):
            await Store.open(database_url, clock=clock)
    store = await Store.open(database_url, clock=clock)
    assert await store.jobs.get(job.id) == job
    await store.close()


async def test_tables_from_before_the_first_release_are_refused_with_what_to_do(
    database_url: str,
) -> None:
    store = await Store.open(database_url)
    async with store.shared.database.write() as connection:
        await connection.execute(sa.text("UPDATE alembic_version SET version_num = '0019'"))
    await store.close()
    with pytest.raises(
        StoreUnavailable, match=r"before the first release: let queue\.database name a new one"
    ):
        await Store.open(database_url)
