"""The queue's database: version, rights, migration level, clock, connections left. Nothing is migrated."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.doctor.findings import Finding, well, wrong
from bot.doctor.places import takes_files
from bot.process.threads import in_thread
from bot.store.database.database import Database
from bot.store.database.opening import connect_database
from bot.store.database.sqlite_file import CONNECTIONS, check_file_system
from bot.store.database.upgrade import Level, level
from bot.store.tables import queue

PART = "database"
OLDEST_POSTGRESQL, OLDEST_SQLITE = 150_000, (3, 35)
MOST_CLOCK_SECONDS = 2.0

_CONNECTIONS = sa.text(
    "SELECT current_setting('max_connections')::int"
    " - current_setting('superuser_reserved_connections')::int"
    " - (SELECT count(*) FROM pg_stat_activity WHERE usesysid IS NOT NULL"
    # Without pg_read_all_stats, backend_type is NULL for the connections of other roles.
    " AND coalesce(backend_type, 'client backend') = 'client backend') + 1 AS of_server,"
    " (SELECT CASE WHEN rolconnlimit < 0 THEN NULL ELSE rolconnlimit -"
    " (SELECT count(*) FROM pg_stat_activity WHERE usename = current_user) + 1 END"
    " FROM pg_roles WHERE rolname = current_user) AS of_role,"
    " (SELECT CASE WHEN datconnlimit < 0 THEN NULL ELSE datconnlimit -"
    " (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()) + 1 END"
    " FROM pg_database WHERE datname = current_database()) AS of_database"
)
_MISSING_RIGHTS = sa.text(
    "SELECT c.relname, r.privilege FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace,"
    " unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS r(privilege)"
    " WHERE n.nspname = current_schema() AND c.relname = ANY(:names)"
    " AND NOT has_table_privilege(c.oid, r.privilege) ORDER BY c.relname, r.privilege"
)


async def look(url: str, *, clock: Callable[[], float] = time.time) -> AsyncIterator[Finding]:
    """Yield the findings about the database at `url`; raises ConfigurationError or StoreUnavailable."""
    database = connect_database(url)
    file = Path(database.place)
    try:
        if not database.has_time and (lost := await in_thread(lambda: _deserted(file), PART)):
            yield lost
        if not database.has_time and (missing := await in_thread(lambda: _missing(file), PART)):
            yield missing
            return
        looking = _on_server if database.has_time else _on_file
        async for finding in looking(database, clock):
            yield finding
    finally:
        await database.close()


def _deserted(file: Path) -> Finding | None:
    """Return the finding about a process that uses a deleted SQLite file of this name, which Linux tells."""
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):  # the process has ended, or is another user's
            if str(link.readlink()) == f"{file} (deleted)":
                return wrong(
                    f"the process {link.parts[2]} uses {file}, which was deleted or replaced: stop that "
                    "process, restore a backup, and start it again.",
                )
    return None


def _missing(file: Path) -> Finding | None:
    """Return the finding about a missing SQLite file; None if the file exists.

    Raises ConfigurationError for a file on a network file system.
    """
    check_file_system(file)
    if file.exists():
        return None
    folder = file.parent if file.parent.exists() else file.parent.parent
    if not folder.is_dir():
        return wrong(f"there is no folder {file.parent} for {file.name}: make it, or name another file.")
    if not takes_files(folder):
        return wrong(f"{folder} cannot be written: give it to the user that runs the bot.")
    return well(f"{file} is not there yet: the first start makes it.")


async def _on_file(database: Database, _clock: Callable[[], float]) -> AsyncIterator[Finding]:
    version = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        yield wrong(f"SQLite {version} is too old: use a Python with {_dotted(OLDEST_SQLITE)} or newer.")
    async with database.read() as connection:
        yield _migration(await connection.run_sync(level))
    async with database.write() as connection:  # the lock of a writer is taken, and nothing is written
        await connection.execute(sa.text("SELECT 1"))
    yield well(f"SQLite {version} in {database.place} can be read and written.")


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


async def _on_server(database: Database, clock: Callable[[], float]) -> AsyncIterator[Finding]:
    async with database.read() as connection:
        yield await _version(connection, database.place)
        here = await connection.run_sync(level)
        yield _migration(here)
        yield await _rights(connection, here)
        yield await _time(connection, clock)
        yield await _connections(connection)


async def _version(connection: AsyncConnection, place: str) -> Finding:
    number = int(await connection.scalar(sa.text("SHOW server_version_num")))
    if number < OLDEST_POSTGRESQL:
        return wrong(f"{place} is PostgreSQL {number // 10_000}: PostgreSQL 15 or newer is needed.")
    return well(f"PostgreSQL {number // 10_000}.{number % 10_000} in {place} answers.")


def _migration(here: Level) -> Finding:
    if here.current is None:
        return well("it has no tables yet: the first start makes them.")
    if not here.is_known:
        return wrong(f"its tables are of a newer version of the bot ({here.current}): start that version.")
    if here.current != here.head:
        return well(f"its tables are at {here.current}: the next start brings them to {here.head}.")
    return well(f"its tables are at {here.head}, as this version needs them.")


async def _rights(connection: AsyncConnection, here: Level) -> Finding:
    user = await connection.scalar(sa.text("SELECT current_user"))
    if await connection.scalar(sa.text("SELECT pg_is_in_recovery()")):
        return wrong("this server only lets itself be read: name the server that takes writes.")
    makes = sa.text("SELECT has_schema_privilege(current_schema(), 'CREATE')")
    if here.current != here.head and not await connection.scalar(makes):
        return wrong(f"{user} may not make tables: GRANT CREATE ON SCHEMA public TO {user}.")
    names = {"names": list(queue.metadata.tables)}
    if lacking := (await connection.execute(_MISSING_RIGHTS, names)).all():
        first = f"{lacking[0].privilege} ON {lacking[0].relname} TO {user}"
        return wrong(f"{user} lacks {len(lacking)} rights: GRANT {first}, and so on, or own the tables.")
    return well(f"{user} has the rights.")


async def _time(connection: AsyncConnection, clock: Callable[[], float]) -> Finding:
    before = clock()
    told = await connection.scalar(sa.text("SELECT extract(epoch FROM clock_timestamp())::float8"))
    difference = float(told) - (before + clock()) / 2
    if abs(difference) > MOST_CLOCK_SECONDS:
        return wrong(
            f"its clock is {difference:+.1f} s from this machine's: synchronise both with one time server."
        )
    return well(f"its clock is {difference:+.3f} s from this machine's.")


async def _connections(connection: AsyncConnection) -> Finding:
    row = (await connection.execute(_CONNECTIONS)).one()
    left = min(limit for limit in (row.of_server, row.of_role, row.of_database) if limit is not None)
    if left < CONNECTIONS:
        return wrong(
            f"{left} connections are left, and a process needs up to {CONNECTIONS}: raise max_connections "
            "(or the limit of the role or the database), or stop other programs.",
        )
    return well(f"{left} connections are left; a process needs up to {CONNECTIONS}.")
