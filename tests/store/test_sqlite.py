"""The database in a file: durable commits, and one sentence for every fault."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from recipes import ORIGIN, RECIPE, origin, recipe
from stores import Clock, small_disk

from bot.app.monitoring import BacklogReader
from bot.domain.errors import ConfigurationError, StoreUnavailable
from bot.domain.jobs import State
from bot.store import Store, check_url
from bot.store.database import sqlite_file
from bot.store.database.sqlite_file import CONNECTIONS
from bot.telemetry.metrics import WELL, Metrics


@pytest.fixture
async def store(database: Path, clock: Clock) -> AsyncIterator[Store]:
    store = await Store.open(f"sqlite:///{database}?timeout=0.05", clock=clock)
    yield store
    await store.close()


async def refusal(database: Path) -> str:
    """The sentence with which opening this database is refused."""
    with pytest.raises(StoreUnavailable) as told:
        await (await Store.open(f"sqlite:///{database}?timeout=0.05")).close()
    assert str(database) in str(told.value)
    assert str(told.value).count("\n") == 0
    return str(told.value)


async def test_commits_are_durable_and_keys_enforced(store: Store) -> None:
    async with store.shared.database.write() as connection:
        pragmas = [
            await connection.scalar(sa.text(f"PRAGMA {name}"))
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        ]
    assert pragmas == ["wal", 2, 1, 50]


async def test_connections_are_kept_with_their_threads(store: Store) -> None:
    async def read(together: asyncio.Barrier) -> None:
        async with store.shared.database.read():
            await together.wait()

    async def threads_after_a_rush() -> set[int | None]:
        together = asyncio.Barrier(CONNECTIONS)
        await asyncio.gather(*(read(together) for _ in range(CONNECTIONS)))
        return {thread.ident for thread in threading.enumerate()}

    assert await threads_after_a_rush() == await threads_after_a_rush()


async def test_a_missing_disk_is_not_mistaken_for_an_empty_queue(tmp_path: Path) -> None:
    assert "cannot be made" in await refusal(tmp_path / "not-mounted" / "var" / "queue.sqlite3")


async def test_a_folder_in_place_of_the_database_raises_one_sentence(tmp_path: Path) -> None:
    assert "cannot be opened" in await refusal(tmp_path)


async def test_a_file_of_another_kind_raises_one_sentence_and_is_unchanged(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    text = "not a database, and dear to somebody\n" * 100
    other.write_text(text)
    assert "is not a queue database" in await refusal(other)
    assert other.read_text() == text


async def test_a_locked_database_raises_one_sentence_and_works_after_the_lock(
    store: Store, database: Path
) -> None:
    with closing(sqlite3.connect(database)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreUnavailable, match="locked by another process") as told:
            await store.jobs.enqueue(RECIPE, ORIGIN)
        assert str(database) in str(told.value)
        assert "locked" in await refusal(database)
        other.rollback()
    assert (await store.jobs.enqueue(RECIPE, ORIGIN)).state is State.WAITING


async def test_a_new_file_that_another_process_sets_up_is_waited_for(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite itself fails at once where the file has no write-ahead log yet."""
    database.parent.mkdir()
    with closing(sqlite3.connect(database, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        monkeypatch.setattr(sqlite_file.time, "sleep", lambda _seconds: other.rollback())
        store = await Store.open(f"sqlite:///{database}")
    assert (await store.jobs.enqueue(RECIPE, ORIGIN)).state is State.WAITING
    await store.close()


async def test_a_full_disk_refuses_new_jobs_and_keeps_the_accepted(store: Store) -> None:
    accepted = await store.jobs.enqueue(RECIPE, origin(0))
    with small_disk():
        calls = (store.jobs.enqueue(recipe(prompt="x" * 2000), origin(number)) for number in range(1, 20))
        results = await asyncio.gather(*calls, return_exceptions=True)
    refusals = {str(result) for result in results if isinstance(result, StoreUnavailable)}
    assert len(refusals) == 1
    assert "full" in refusals.pop()
    assert await store.jobs.get(accepted.id) == accepted


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:////tmp/queue?timeout=soon",
        "mysql://somewhere/queue",
        "not a url",
        "sqlite+aiosqlite://",
    ],
)
async def test_a_database_that_can_never_work_is_a_mistake_in_the_configuration(url: str) -> None:
    with pytest.raises(ConfigurationError):
        await Store.open(url)


async def test_a_start_waits_for_another_process_that_upgrades_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for the lock longer than any other transaction would."""
    monkeypatch.setattr(sqlite_file, "_BUSY_SECONDS", 0.05)
    database = tmp_path / "queue.sqlite3"
    with closing(sqlite3.connect(database)) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.isolation_level = None
        other.execute("BEGIN IMMEDIATE")
        opening = asyncio.create_task(Store.open(f"sqlite:///{database}"))
        await asyncio.sleep(0.5)  # ten times as long as a transaction waits
        assert not opening.done()
        other.execute("COMMIT")
        await (await opening).close()


@pytest.mark.parametrize(
    "option",
    ["timeout=nan", "timeout=-1", "timeout=1e9", "cached_statements=99999999999", "detect_types=all"],
)
def test_an_option_that_the_driver_refuses_is_a_mistake_in_the_configuration(
    tmp_path: Path, option: str
) -> None:
    with pytest.raises(ConfigurationError, match="an option: " + option.partition("=")[0]):
        check_url(f"sqlite:///{tmp_path}/queue.sqlite3?{option}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "address", ["file::memory:?uri=true", "file:queue?uri=true&mode=memory", "queue.sqlite3?mode=ro"]
)
def test_an_option_that_would_name_another_file_or_be_ignored_is_refused(address: str) -> None:
    with pytest.raises(ConfigurationError, match="SQLite cannot have the options: "):
        check_url(f"sqlite:///{address}")


def test_an_address_can_have_the_options_of_the_driver() -> None:
    options = "check_same_thread=false&detect_types=0&cached_statements=0&timeout=0&isolation_level=IMMEDIATE"
    check_url(f"sqlite:///queue.sqlite3?{options}")


@pytest.mark.parametrize("how", ["deleted", "emptied", "replaced"])
async def test_nothing_is_accepted_once_the_file_is_gone_until_it_is_put_back(
    tmp_path: Path, how: str
) -> None:
    file, kept = tmp_path / "queue.sqlite3", tmp_path / "kept"
    store = await Store.open(f"sqlite+aiosqlite:///{file}")
    reader = BacklogReader(store.jobs, Metrics())
    accepted = await store.jobs.enqueue(RECIPE, origin(1))
    assert await reader.check() == WELL
    if how == "emptied":
        os.truncate(file, 0)
    else:
        file.rename(kept)
    if how == "replaced":
        await (await Store.open(f"sqlite+aiosqlite:///{file}")).close()
    with pytest.raises(StoreUnavailable, match="was deleted, emptied or replaced while the bot runs"):
        await store.jobs.enqueue(RECIPE, origin(2))
    later = BacklogReader(store.jobs, Metrics())
    assert "was deleted, emptied or replaced" in await later.check()
    if how == "deleted":
        kept.rename(file)
        assert await store.jobs.get(accepted.id) == accepted
        await store.jobs.enqueue(RECIPE, origin(3))
    await store.close()


async def test_what_is_written_while_the_file_is_deleted_counts_as_lost(tmp_path: Path) -> None:
    file = tmp_path / "queue.sqlite3"
    store = await Store.open(f"sqlite+aiosqlite:///{file}")
    await store.jobs.counts()

    async def write() -> None:
        async with store.shared.database.write() as connection:
            await connection.execute(sa.text("DELETE FROM departures"))
            file.unlink()

    with pytest.raises(StoreUnavailable, match="was deleted"):
        await write()
    await store.close()
