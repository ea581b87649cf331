"""Backups in tests: made from a store, restored into a database, and rows of every table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from bot.backup import Made, Restored, make_backup, restore_backup
from bot.files import Artifacts
from bot.store import Store
from bot.store.backups.dump import snapshot
from bot.store.database.opening import connect_database, make_database
from bot.store.tables.queue import Member, metadata

ROWS = 2  # of each table


async def backed_up(url: str, place: Path, artifacts: Artifacts, *, keep: int | None = None) -> Made:
    database = connect_database(url)
    try:
        return await make_backup(place, database, artifacts, keep=keep)
    finally:
        await database.close()


async def restored(place: Path, url: str, artifacts: Artifacts) -> Restored:
    database = await make_database(url)
    try:
        return await restore_backup(place, database, artifacts)
    finally:
        await database.close()


async def all_rows(url: str) -> dict[str, list[dict[str, Any]]]:
    """Return each table's rows as dictionaries by column, sorted by their text."""
    database = connect_database(url)
    try:
        async with snapshot(database) as seen:
            found = {}
            for name, table in seen.tables.items():
                columns = [column.name for column in table.columns]
                rows = [row async for some in seen.rows(name) for row in some]
                found[name] = [dict(zip(columns, row, strict=True)) for row in sorted(rows, key=repr)]
            return found
    finally:
        await database.close()


async def fill_every_table(store: Store) -> None:
    """Replace the rows of each table (in `audit`, add some); every second row has a null where it can."""
    async with store.shared.database.write() as connection:
        for table in metadata.sorted_tables:
            await connection.execute(sa.delete(table)) if table.name != "audit" else None
            for number in range(1, ROWS + 1):
                values = {column.name: _value(column, number) for column in table.columns}
                await connection.execute(sa.insert(table).values(values))


def _value(column: sa.Column[Any], number: int) -> Any:
    if column.nullable and number % 2:
        return sa.null()
    if column.foreign_keys:
        (key,) = column.foreign_keys
        return _value(key.column, number)
    kind = column.type
    if isinstance(kind, Member):
        return next(iter(kind.members))
    if isinstance(kind, sa.JSON):
        return [{"“key”": [number, 0.1, None, "\n"]}, None][column.nullable]  # a null of JSON, not of SQL
    if isinstance(kind, sa.LargeBinary):
        return bytes([0, 255, number])
    if isinstance(kind, sa.Boolean):
        return bool(number % 2)
    if isinstance(kind, sa.Integer):
        return number + (2**62 if isinstance(kind, sa.BigInteger) and not column.primary_key else 0)
    if isinstance(kind, sa.Float):
        return number / 3
    return f"{number} \N{GRINNING FACE}"[: kind.length or 99] if isinstance(kind, sa.String) else None


def without(rows: Sequence[Mapping[str, Any]], *columns: str) -> list[dict[str, Any]]:
    """The rows without these columns."""
    return [{name: value for name, value in row.items() if name not in columns} for row in rows]
