"""The databases that the contract of the store is tested on."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from stores import Clock, OpenStore

from bot.store import Store


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def bare_sqlite_url(tmp_path: Path) -> str:
    return f"sqlite+aiosqlite:///{tmp_path}/queue.sqlite3"


@pytest.fixture(params=["sqlite_url", pytest.param("postgres_url", marks=pytest.mark.postgres)])
def database_url(request: pytest.FixtureRequest) -> str:
    """The address of a database with empty tables, once for each kind."""
    url: str = request.getfixturevalue(request.param)
    return url


@pytest.fixture(params=["bare_sqlite_url", pytest.param("bare_postgres_url", marks=pytest.mark.postgres)])
def bare_database_url(request: pytest.FixtureRequest) -> str:
    """The address of a database without tables, once for each kind."""
    url: str = request.getfixturevalue(request.param)
    return url


@pytest.fixture
async def open_store(database_url: str, clock: Clock) -> AsyncIterator[OpenStore]:
    """Opens further stores on the same database, as other processes do."""
    async with AsyncExitStack() as opened:

        async def open_one() -> Store:
            store = await Store.open(database_url, clock=clock)
            opened.push_async_callback(store.close)
            return store

        yield open_one


@pytest.fixture
async def store(open_store: OpenStore) -> Store:
    return await open_store()
