"""Database files, migrated once for each test process and copied for each test, and their stores."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.files.artifacts import Artifacts
from bot.store import Store


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database file with empty tables."""

    async def migrate(file: Path) -> None:
        await (await Store.open(f"sqlite+aiosqlite:///{file}")).close()

    file = tmp_path_factory.mktemp("migrated") / "queue.sqlite3"
    asyncio.run(migrate(file))
    return file


@pytest.fixture
def sqlite_url(tmp_path: Path, migrated_file: Path) -> str:
    """The address of a database file of this test, `queue.sqlite3` in its folder, with empty tables."""
    return f"sqlite+aiosqlite:///{shutil.copy(migrated_file, tmp_path)}"


@pytest.fixture
async def store(sqlite_url: str) -> AsyncIterator[Store]:
    """The store of this test's database file."""
    store = await Store.open(sqlite_url)
    yield store
    await store.close()


@pytest.fixture
def artifacts(tmp_path: Path) -> Artifacts:
    return Artifacts(str(tmp_path / "artifacts"))
