"""One database: connections, transactions, migrations, and its failures in one sentence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from bot.errors import ConfigurationError, StoreUnavailable
from bot.store.failures import TRANSLATED, unavailable
from bot.store.migrate import upgrade

_DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg"}
_BUSY_SECONDS = 10.0
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",  # readers never wait for the writer
    # With NORMAL a power cut may lose the last commits: a job somebody was told is queued would be gone.
    # FULL costs one fsync a commit (benchmarks/store.py prints what that is here).
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
)


class Database:
    """The engine behind a store, and what messages call it."""

    def __init__(self, engine: AsyncEngine, place: str) -> None:
        self._engine = engine
        self._reader = engine.execution_options(read_only=True)
        self._place = place
        # SQLite has one writer at a time and polls for its lock; a queue in the process is fairer, quicker.
        self._turn = asyncio.Lock() if engine.dialect.name == "sqlite" else None

    @classmethod
    async def open(cls, url: str) -> Database:
        """Connect and bring the tables up to date.

        Raises ConfigurationError for a URL that cannot work and StoreUnavailable for one that does not now.
        """
        parsed = _parse(url)
        place, arguments = parsed.render_as_string(hide_password=True), {}
        if parsed.get_backend_name() == "sqlite":
            place = _make_folder(parsed)
            # The driver must not begin transactions by itself: `_begin` decides which kind each one is.
            arguments = {"isolation_level": None, "timeout": _BUSY_SECONDS}
            arguments |= {"timeout": float(str(parsed.query["timeout"]))} if "timeout" in parsed.query else {}
        engine = create_async_engine(parsed, connect_args=arguments)
        if engine.dialect.name == "sqlite":
            sa.event.listen(engine.sync_engine, "connect", _set_pragmas)
            sa.event.listen(engine.sync_engine, "begin", _begin)
        database = cls(engine, place)
        try:
            async with database.write() as connection:
                await connection.run_sync(upgrade)
        except BaseException:
            await database.close()
            raise
        return database

    async def close(self) -> None:
        """Close every connection."""
        await self._engine.dispose()

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """One transaction that may change things: committed at the end, undone on any error."""
        with self._translated():
            async with self._turn or nullcontext(), self._engine.begin() as connection:
                yield connection

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """One transaction that only reads, from one moment's state."""
        with self._translated():
            async with self._reader.begin() as connection:
                yield connection

    def _translated(self) -> _Translated:
        return _Translated(self._place)


class _Translated:
    """Raises StoreUnavailable instead of the driver's errors."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, TRANSLATED) and (better := unavailable(error, self._place)):
            raise better from error


def insert(connection: AsyncConnection, table: sa.Table) -> sqlite.Insert | postgresql.Insert:
    """An INSERT that knows ON CONFLICT, which both databases have and SQLAlchemy keeps per dialect."""
    return sqlite.insert(table) if connection.dialect.name == "sqlite" else postgresql.insert(table)


def _parse(url: str) -> sa.URL:
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError:
        raise ConfigurationError(f"“{url}” is not the URL of a database.") from None
    backend = parsed.get_backend_name()
    if backend not in _DRIVERS:
        raise ConfigurationError(f"The queue's database is sqlite or postgresql, not {backend}.")
    if backend == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise ConfigurationError(
            "The queue's database needs a file: in memory it would forget accepted jobs."
        )
    return parsed.set(drivername=_DRIVERS[backend])


def _make_folder(url: sa.URL) -> str:
    """Make the database's own folder, no more: a missing parent means a wrong path or a missing disk."""
    path = Path(str(url.database)).absolute()
    try:
        path.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(f"The folder of {path} cannot be made: {error.strerror}.") from error
    return str(path)


def _set_pragmas(connection: DBAPIConnection, _record: object) -> None:
    cursor = connection.cursor()
    for pragma in _PRAGMAS:
        cursor.execute(pragma)
    cursor.close()


def _begin(connection: sa.Connection) -> None:
    # A transaction that read first and writes later would fail with “locked” instead of waiting its turn.
    options: dict[str, Any] = dict(connection.get_execution_options())
    connection.exec_driver_sql("BEGIN" if options.get("read_only") else "BEGIN IMMEDIATE")
