"""Loads the rows of a backup into a database without tables, in one transaction.

In a restored queue all processes of the backup count as dead: images and jobs that they held are free.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.errors import BackupRefused, StoreUnavailable
from bot.domain.jobs import State
from bot.store.backups.dump import BYTES, JSON, PLAIN, kind_of, reflected
from bot.store.database.database import Clock, Database
from bot.store.database.upgrade import make_tables, tables_at, upgrade
from bot.store.rows.outbox import UNSETTLED
from bot.store.rows.transitions import lock_jobs, move, settle
from bot.store.tables.logins import logins
from bot.store.tables.outbox import outbox
from bot.store.tables.queue import duties, files, images, jobs, previews, processes, workers

_RUNNING = images.c.state == State.RUNNING
_NO_ROWS = (sa.exc.IntegrityError, sa.exc.InterfaceError, OverflowError, TypeError, ValueError)
"""The errors of rows that no bot has written."""
_OF_PROCESSES = (processes, workers, duties, previews, logins)


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The rows of one table, some at a time, as `dumping.Snapshot.rows` yields them."""

    table: str
    columns: Sequence[str]
    some: Iterable[list[list[Any]]]


async def is_empty(database: Database) -> bool:
    """Return whether a queue could be made in the database: it has none of its tables."""
    async with database.read() as connection:
        return await connection.run_sync(_is_empty)


async def load(
    database: Database, revision: str, tables: Iterable[Rows], *, last: Callable[[], Awaitable[None]]
) -> None:
    """Make the tables of `revision`, a known one, fill them, bring them up to date, and free what was held.

    `last` is awaited before the commit: where it fails, no row is loaded. Raises StoreUnavailable for a
    database that has tables, and BackupRefused for rows that do not fit; then nothing has changed.
    """
    names = tables_at(revision)
    async with database.write() as connection:
        if database.has_time:  # `last` may take long
            await connection.execute(sa.text("SET LOCAL idle_in_transaction_session_timeout = 0"))
        if not await connection.run_sync(_is_empty):
            raise not_empty(database)
        await connection.run_sync(make_tables, revision)
        made = await connection.run_sync(reflected, names)
        for rows in tables:
            table = made.get(rows.table)
            if table is None or not set(rows.columns) <= {column.name for column in table.columns}:
                raise _unfit(rows.table)
            await _fill(connection, table, rows, database.place)
        await _set_sequences(connection, made.values())
        await connection.run_sync(upgrade)
        clock = Clock(server=database.has_time)
        if database.has_time:
            await clock.refresh(connection)
        await _release(connection, now=clock())
        await last()


def not_empty(database: Database) -> StoreUnavailable:
    """Return the error for a database in which a queue is."""
    return StoreUnavailable(
        f"{database.place} is not empty: let queue.database name a new file or an empty database."
    )


def _is_empty(connection: sa.Connection) -> bool:
    return not {"alembic_version", jobs.name} & set(sa.inspect(connection).get_table_names())


async def _fill(connection: AsyncConnection, table: sa.Table, rows: Rows, place: str) -> None:
    columns = [table.c[name] for name in rows.columns]
    kinds = [kind_of(column) for column in columns]
    written = {
        column: _written(number, kinds[number], column, connection) for number, column in enumerate(columns)
    }
    statement = sa.insert(table).values(written)
    # The migrations have filled some tables, and triggers fill `server_revisions` for the tables before it.
    if await connection.scalar(sa.select(sa.exists().select_from(table))):
        await connection.execute(sa.delete(table))
    for some in rows.some:
        try:
            values = [dict(_bound(row, kinds)) for row in some]
            await connection.execute(statement, values)
        except _NO_ROWS as error:
            raise _unfit(table.name) from error
        except sa.exc.DataError as error:  # SQLite takes texts that PostgreSQL refuses
            raise StoreUnavailable(
                f"{place} does not take a row of the table {table.name} as the backup has it: restore the "
                "backup into a database of the kind that it was made from."
            ) from error


def _written(number: int, kind: str, column: sa.Column[Any], connection: AsyncConnection) -> Any:
    if kind != JSON:
        return sa.bindparam(f"value_{number}", type_=column.type)
    text = sa.bindparam(f"value_{number}", type_=sa.Text)
    return (
        sa.type_coerce(text, sa.Text) if connection.dialect.name == "sqlite" else sa.cast(text, column.type)
    )


def _unfit(table: str) -> BackupRefused:
    return BackupRefused(
        f"The backup's rows of the table {table} fit no queue of its version: restore another backup."
    )


def _bound(row: Any, kinds: Sequence[str]) -> Iterator[tuple[str, Any]]:
    if not isinstance(row, list):
        raise TypeError("a row is a list")
    for number, (value, kind) in enumerate(zip(row, kinds, strict=True)):
        if not isinstance(value, str | None if kind != PLAIN else str | int | float | None):
            raise TypeError("no value of a column")
        is_bytes = kind == BYTES and value is not None
        yield f"value_{number}", base64.b64decode(value) if is_bytes else value


async def _set_sequences(connection: AsyncConnection, tables: Iterable[sa.Table]) -> None:
    """Let PostgreSQL number new rows after the loaded ones; SQLite does so by itself."""
    if connection.dialect.name != "postgresql":
        return
    for table in tables:
        if table.autoincrement_column is None:
            continue
        key = table.autoincrement_column
        sequence = sa.func.pg_get_serial_sequence(table.name, key.name)
        following = sa.select(sa.func.coalesce(sa.func.max(key), 0) + 1).scalar_subquery()
        await connection.execute(sa.select(sa.func.setval(sequence, following, False)))


async def _release(connection: AsyncConnection, *, now: float) -> None:
    """Free the rows that processes held. A lease that ends here does not count as a worker's death."""
    job_ids = await lock_jobs(connection, _RUNNING)
    free = {"step": 0, "worker": None, "lease_expires_at": None, "begun": False}
    await connection.execute(move(State.WAITING, _RUNNING, fencing_token=images.c.fencing_token + 1, **free))
    for job_id in job_ids:
        await settle(connection, job_id, now=now)
    for table in _OF_PROCESSES:
        await connection.execute(sa.delete(table))
    await connection.execute(sa.update(jobs).where(jobs.c.front.is_not(None)).values(front=None))
    await connection.execute(sa.update(files).values(leased_until=None))
    due = {"fencing_token": outbox.c.fencing_token + 1, "next_try_at": now, "front": None}
    await connection.execute(sa.update(outbox).where(UNSETTLED).values(due))
