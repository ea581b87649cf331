"""All rows of a queue as plain values, from one snapshot: what a backup keeps of the database.

The values are the same for every kind of database, so one kind's rows can be loaded into another.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.errors import StoreUnavailable
from bot.domain.file_states import FileState
from bot.store.database.database import Database
from bot.store.database.opening import has_tables
from bot.store.database.upgrade import level, tables_at

ROWS_AT_ONCE = 500
BYTES, JSON, PLAIN = "bytes", "json", "plain"
"""How a column's values are written: base64, the text of a JSON value, or as they are."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The rows of one moment. `revision` is the migration of the tables."""

    revision: str
    tables: Mapping[str, sa.Table]
    connection: AsyncConnection

    async def rows(self, name: str) -> AsyncIterator[list[list[Any]]]:
        """Yield the rows of a table, up to ROWS_AT_ONCE at a time, each as the values of its columns."""
        table = self.tables[name]
        kinds = [kind_of(column) for column in table.columns]
        chosen = [
            _read(column, kind, self.connection) for column, kind in zip(table.columns, kinds, strict=True)
        ]
        async with self.connection.stream(sa.select(*chosen)) as found:
            async for rows in found.partitions(ROWS_AT_ONCE):
                yield [[_plain(value, kind) for value, kind in zip(row, kinds, strict=True)] for row in rows]

    async def pictures(self) -> dict[str, float | None]:
        """Return the names of the files that jobs show or start from and that are kept, each with a time.

        The time says since when the file is kept; it is None for a file without a row. Writing the file again
        changes the time, whether or not it was deleted before.
        """
        images, starts, files = (self.tables[name] for name in ("images", "start_pictures", "files"))
        named = sa.union(
            sa.select(images.c.artifact.label("name")).where(images.c.artifact.is_not(None)),
            sa.select(starts.c.artifact.label("name")),
        ).subquery()
        kept = sa.func.coalesce(files.c.state, FileState.KEPT.value) == FileState.KEPT.value
        look = sa.select(named.c.name, files.c.changed_at)
        look = look.outerjoin(files, files.c.name == named.c.name).where(kept)
        return {row.name: row.changed_at for row in await self.connection.execute(look)}


@asynccontextmanager
async def snapshot(database: Database) -> AsyncIterator[Snapshot]:
    """Read one moment of the database while others go on writing; its tables stay as they are.

    The server's limit for idle transactions is off, as the reader copies files meanwhile.

    Raises StoreUnavailable for a database without tables, or of a newer version.
    """
    if not await has_tables(database):
        raise StoreUnavailable(f"{database.place} holds no queue: there is nothing to back up.")
    async with database.read() as connection:
        found = await connection.run_sync(level)
        if found.current is None or not found.is_known:
            raise StoreUnavailable(
                f"{database.place} was written by another version of the bot (its tables are of "
                f"{found.current}): back it up with that version."
            )
        if database.has_time:
            await connection.execute(sa.text("SET LOCAL idle_in_transaction_session_timeout = 0"))
        names = tables_at(found.current)
        tables = await connection.run_sync(reflected, names)
        yield Snapshot(revision=found.current, tables=tables, connection=connection)


def reflected(connection: sa.Connection, names: frozenset[str]) -> dict[str, sa.Table]:
    """Return these tables of a database by name, each after those that its foreign keys name.

    The table of the migrations is left out.
    """
    metadata = sa.MetaData()
    metadata.reflect(connection, only=sorted(names))
    return {table.name: table for table in metadata.sorted_tables if table.name != "alembic_version"}


def kind_of(column: sa.Column[Any]) -> str:
    """Return how the values of a column are written."""
    if isinstance(column.type, sa.LargeBinary):
        return BYTES
    return JSON if isinstance(column.type, sa.JSON) else PLAIN


def _read(column: sa.Column[Any], kind: str, connection: AsyncConnection) -> sa.ColumnElement[Any]:
    if kind != JSON:
        return column
    # As text: a null of JSON and a null of SQL would be the same value.
    if connection.dialect.name == "sqlite":
        return sa.type_coerce(column, sa.Text)
    return sa.cast(column, sa.Text)


def _plain(value: Any, kind: str) -> Any:
    return base64.b64encode(value).decode() if kind == BYTES and value is not None else value
