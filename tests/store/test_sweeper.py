"""The sweep of a real queue and real files."""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from pydantic import ValidationError
from recipes import origin, recipe
from stores import TTL, Clock, undelivered

from bot.config import RetentionConfig
from bot.domain.errors import MissingArtifact, StoreUnavailable
from bot.domain.jobs import Job, Showing
from bot.files import Files, sweeper
from bot.files.artifacts import PART_SECONDS, Artifacts
from bot.files.sweeper import ROWS_PER_TRANSACTION, YOUNG_SECONDS, Bounds, Sweeper
from bot.store import Store
from bot.store.rows.audit import By
from bot.store.rows.device_time import Grouping, Spent
from bot.store.rows.restrictions import Scope
from bot.store.tables.reviews import reviews

DAY = 86_400.0
BOUNDS = Bounds(file_seconds=30 * DAY, file_bytes=2500, job_seconds=365 * DAY)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store(sqlite_url: str, clock: Clock) -> AsyncIterator[Store]:
    store = await Store.open(sqlite_url, clock=clock)
    yield store
    await store.close()


@pytest.fixture(params=["folder", "memory://"])
def artifacts(request: pytest.FixtureRequest, tmp_path: Path) -> Artifacts:
    memory = request.param == "memory://"
    return Artifacts(f"memory://{uuid.uuid4().hex}" if memory else str(tmp_path / "results"))


def make(store: Store, artifacts: Artifacts, clock: Clock, bounds: Bounds = BOUNDS) -> Sweeper:
    return Sweeper(store, artifacts, bounds, clock=clock)


def bytes_of(number: int) -> bytes:
    """Content of 1,000 bytes."""
    return hashlib.sha256(bytes([number])).digest() * 31 + bytes(8)


async def painted(store: Store, artifacts: Artifacts, number: int, *, start: str | None = None) -> Job:
    """A job that is finished and delivered."""
    job = await store.jobs.enqueue(recipe(init_image=start), origin(number))
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    name = await Files(store.files, artifacts).keep(bytes_of(number), ".png")
    job = await store.leases.complete(claim, artifact=name, seconds=1.0)
    for delivery in await undelivered(store, limit=9):
        await store.deliveries.mark_delivered(delivery, outcome="edited", message_id=1)
    return job


async def there(artifacts: Artifacts) -> set[str]:
    return {name for some in [found async for found in artifacts.listing()] for name in some}


def names(*jobs: Job) -> set[str]:
    return {str(job.images[0].artifact) for job in jobs}


async def test_a_file_older_than_the_bound_is_deleted_and_its_job_is_kept(
    store: Store, artifacts: Artifacts, clock: Clock
) -> None:
    old = await painted(store, artifacts, 1)
    clock.now += 20 * DAY
    young = await painted(store, artifacts, 2)
    clock.now += 20 * DAY
    await make(store, artifacts, clock).sweep()
    assert await there(artifacts) == names(young)
    assert (await store.jobs.get(old.id)).images == old.images


async def test_no_young_file_is_deleted_however_small_the_bound(
    store: Store, artifacts: Artifacts, clock: Clock
) -> None:
    job = await painted(store, artifacts, 1)
    clock.now += YOUNG_SECONDS / 2
    bounds = Bounds(file_seconds=1.0, file_bytes=1)
    await make(store, artifacts, clock, bounds).sweep()
    assert await there(artifacts) == names(job)


async def test_without_bounds_everything_is_kept(store: Store, artifacts: Artifacts, clock: Clock) -> None:
    job = await painted(store, artifacts, 1)
    clock.now += 10_000 * DAY
    await make(store, artifacts, clock, Bounds()).sweep()
    assert await there(artifacts) == names(job)
    assert (await store.jobs.get(job.id)).images == job.images


async def test_without_bounds_a_refused_prompt_is_forgotten_after_a_day(
    store: Store, tmp_path: Path, clock: Clock
) -> None:
    await store.appeals.note_refusal(recipe(), origin(1), rule="", weight=1.0, places=1)
    sweeping, left = make(store, Artifacts(str(tmp_path)), clock, Bounds()), []
    for _ in range(2):
        await sweeping.sweep()
        async with store.shared.database.read() as connection:
            left.append(len(list(await connection.execute(sa.select(reviews.c.id)))))
        clock.now += DAY
    assert left == [1, 0]


async def test_the_start_picture_of_a_refused_job_is_deleted_and_of_an_accepted_job_kept(
    store: Store, artifacts: Artifacts, clock: Clock
) -> None:
    await Files(store.files, artifacts).keep(bytes_of(1), ".png")
    accepted = await Files(store.files, artifacts).keep(bytes_of(2), ".png")
    await store.jobs.enqueue(recipe(init_image=accepted), origin(1))
    sweeping = make(store, artifacts, clock)
    await sweeping.sweep()
    assert len(await there(artifacts)) == 2
    clock.now += 2 * YOUNG_SECONDS
    await sweeping.sweep()
    assert await there(artifacts) == {accepted}


async def test_the_bytes_of_all_files_are_summed_once_for_many_that_go(
    store: Store, artifacts: Artifacts, clock: Clock
) -> None:
    names = [f"{number:02x}/{number:064x}.png" for number in range(3 * ROWS_PER_TRANSACTION)]
    await store.retention.note_files(dict.fromkeys(names, 100))
    clock.now += 2 * YOUNG_SECONDS
    statements: list[str] = []
    engine = store.shared.database._engine.sync_engine
    sa.event.listen(engine, "before_cursor_execute", lambda *seen: statements.append(seen[2]))
    sweeping = make(store, artifacts, clock, Bounds(file_bytes=1_050))
    await sweeping._drop_too_many(clock())
    assert await store.retention.kept_bytes() == 1_000
    assert sum("sum(files.bytes)" in statement for statement in statements) == 2  # with the one of this test


async def test_files_of_an_earlier_version_are_counted_and_orphans_deleted(
    store: Store, artifacts: Artifacts, clock: Clock
) -> None:
    job = await painted(store, artifacts, 1)
    stray = await artifacts.put(bytes_of(2), ".png")
    sweeping = make(store, artifacts, clock)
    await sweeping.sweep()
    assert await store.retention.kept_bytes() == 2000
    assert stray in await there(artifacts)
    clock.now += 2 * YOUNG_SECONDS
    await sweeping.sweep()
    assert await there(artifacts) == names(job)


async def test_a_file_that_is_being_written_again_is_not_deleted(
    store: Store, artifacts: Artifacts, clock: Clock
) -> None:
    job = await painted(store, artifacts, 1)
    clock.now += 31 * DAY
    chosen = await store.retention.drop_files(before=clock.now, limit=9)
    writing = asyncio.create_task(Files(store.files, artifacts).keep(bytes_of(1), ".png"))
    done, _ = await asyncio.wait({writing}, timeout=0.05)
    assert not done
    assert await Files(store.files, artifacts).drop(chosen) == 1
    assert {await writing} == names(job) == await there(artifacts)


async def test_a_failed_deletion_is_retried_by_a_later_sweep(
    store: Store, tmp_path: Path, clock: Clock
) -> None:
    artifacts = Artifacts(str(tmp_path / "results"))
    job = await painted(store, artifacts, 1)
    clock.now += 31 * DAY
    folder = tmp_path / "results" / str(job.images[0].artifact)[:2]
    kept = folder.rename(tmp_path / "away")
    folder.write_text("not a folder")
    sweeping = make(store, artifacts, clock)
    await sweeping.sweep()
    folder.unlink()
    kept.rename(folder)
    clock.now += 61.0
    await sweeping.sweep()
    assert await there(artifacts) == set()


async def test_a_sweep_that_ended_early_misses_no_orphan(
    store: Store, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeper, "ROWS_PER_TRANSACTION", 1)
    artifacts = Artifacts(str(tmp_path / "results"))
    orphans = [await Files(store.files, artifacts).keep(bytes_of(number), ".png") for number in (1, 2)]
    sweeping = make(store, artifacts, clock)
    await sweeping.sweep()
    folders = [tmp_path / "results" / name[:2] for name in orphans]
    away = [folder.rename(tmp_path / f"away {folder.name}") for folder in folders]
    for folder in folders:
        folder.write_text("not a folder")
    clock.now += 2 * YOUNG_SECONDS
    await sweeping.sweep()
    for folder, kept in zip(folders, away, strict=True):
        folder.unlink()
        kept.rename(folder)
    clock.now += 61.0
    await sweeping.sweep()
    assert await there(artifacts) == set()


async def test_partial_files_are_deleted_once_no_process_can_be_writing_them(
    store: Store, tmp_path: Path, clock: Clock
) -> None:
    artifacts = Artifacts(str(tmp_path / "results"))
    job = await painted(store, artifacts, 1)
    folder = (tmp_path / "results" / str(job.images[0].artifact)).parent
    old, young = folder / ".old.part", folder / ".young.part"
    for part in (old, young):
        part.write_bytes(b"half")
    long_ago = old.stat().st_mtime - 2 * PART_SECONDS
    os.utime(old, (long_ago, long_ago))
    await make(store, artifacts, clock).sweep()
    assert not old.exists()
    assert young.exists()
    assert await there(artifacts) == names(job)


async def test_of_several_processes_one_sweeps(
    store: Store, artifacts: Artifacts, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeper, "SWEEP_SECONDS", 0.01)
    swept: list[Sweeper] = []
    enough = asyncio.Event()

    class Counted(Sweeper):
        async def sweep(self) -> None:
            swept.append(self)
            if len(swept) == 5:
                enough.set()

    sweepers = [Counted(store, artifacts, BOUNDS, clock=clock) for _ in range(3)]
    running = [asyncio.create_task(each.run()) for each in sweepers]
    async with asyncio.timeout(10):
        await enough.wait()
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    assert len(set(swept)) == 1


async def test_a_damaged_file_counts_as_missing_and_is_replaced(artifacts: Artifacts) -> None:
    name = await artifacts.put(bytes_of(1), ".png")
    artifacts._files.pipe_file(artifacts._path(name), b"half of it")
    with pytest.raises(MissingArtifact, match="damaged"):
        await artifacts.get(name)
    assert await artifacts.put(bytes_of(1), ".png") == name
    assert await artifacts.get(name) == bytes_of(1)


async def test_an_error_of_an_object_store_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoCredentials(Exception):
        """Clients of object stores raise errors that are no OSError."""

    artifacts = Artifacts("memory://bucket")

    def refuse(*_: object, **__: object) -> None:
        raise NoCredentials("Unable to locate credentials\nin three places")

    monkeypatch.setattr(artifacts._files, "pipe_file", refuse, raising=False)
    with pytest.raises(StoreUnavailable) as told:
        await artifacts.put(bytes_of(1), ".png")
    assert str(told.value) == "Results in /bucket cannot be written: Unable to locate credentials."


def test_bounds_come_from_the_configuration_and_zero_is_none() -> None:
    assert sweeper.bounds_of(RetentionConfig()) == Bounds(
        file_seconds=30 * DAY,
        file_bytes=20 * 2**30,
        job_seconds=365 * DAY,
        left_seconds=30 * DAY,
        audit_seconds=730 * DAY,
        usage_seconds=400 * DAY,
    )
    nothing = RetentionConfig(
        picture_days=0, pictures_gib=0, job_days=0, left_server_days=0, audit_days=0, usage_days=0
    )
    assert sweeper.bounds_of(nothing) == Bounds()
    assert math.isinf(Bounds().file_bytes)


async def test_old_rows_of_the_log_go_and_old_months_of_the_usage_lose_their_persons(
    store: Store, artifacts: Artifacts, clock: Clock
) -> None:
    server, bounds = Scope(guild_id=21, user_id=12), Bounds(audit_seconds=730 * DAY, usage_seconds=400 * DAY)
    await store.moderation.block(server, By(actor_id=11, guild_id=21))
    await store.jobs.enqueue(recipe(), origin(1))
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    await store.leases.complete(
        claim,
        artifact=None,
        showing=Showing.WITHHOLD,
        seconds=1.0,
        spent=Spent(accelerator="cpu", seconds=2.0),
    )
    clock.now += 500 * DAY
    await make(store, artifacts, clock, bounds).sweep()
    assert [each.group for each in await store.device_time.sums([Grouping.DAY, Grouping.PERSON])] == [
        ("1970-01", 0)
    ]
    assert len(await store.moderation.entries(21, limit=9)) == 1
    clock.now += 300 * DAY
    await make(store, artifacts, clock, bounds).sweep()
    assert await store.moderation.entries(21, limit=9) == []


def test_a_log_that_the_database_would_not_let_go_is_refused() -> None:
    with pytest.raises(ValidationError, match="31"):
        RetentionConfig(audit_days=7)


async def test_the_jobs_of_a_server_are_deleted_some_time_after_it_removed_the_bot(
    store: Store, artifacts: Artifacts, clock: Clock
) -> None:
    await painted(store, artifacts, 1)
    sweeping = make(store, artifacts, clock, Bounds(left_seconds=30 * DAY))
    await store.erasure.note_departure([21])
    clock.now += 29 * DAY
    await sweeping.sweep()
    assert len(await store.erasure.job_ids_of(guild_id=21, limit=9)) == 1
    clock.now += 2 * DAY
    await sweeping.sweep()
    assert await store.erasure.job_ids_of(guild_id=21, limit=9) == []
    assert await there(artifacts) == set()


async def test_the_files_of_forgotten_jobs_are_deleted(
    store: Store, artifacts: Artifacts, clock: Clock
) -> None:
    first = await painted(store, artifacts, 1)
    second = await painted(store, artifacts, 2, start=first.images[0].artifact)
    clock.now += 366 * DAY
    await make(store, artifacts, clock, Bounds(job_seconds=365 * DAY)).sweep()
    assert await there(artifacts) == set()
    assert await store.files.painter(str(second.images[0].artifact)) is None
