"""Rows of a server with names: the base of the verbs of styles and wildcards."""

from __future__ import annotations

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import sqlalchemy as sa

from bot.domain.errors import UserMistake
from bot.store.database.database import Verbs, insert
from bot.store.rows.audit import Act, By, note
from bot.store.rows.revisions import hold_server


class Named(Protocol):
    """A thing with a name."""

    @property
    def name(self) -> str:
        """The name as typed."""


Row = TypeVar("Row", bound=Named)


def key_of(name: str) -> str:
    """Return the key of a name; it ignores letter case, the number of spaces and Unicode composition."""
    return " ".join(unicodedata.normalize("NFC", name).casefold().split())


class NamedRows(Verbs, ABC, Generic[Row]):
    """The verbs of named rows. A subclass has the table (`guild_id`, `key`, `name`, …) and a server's limit.

    `full` is the UserMistake of a server that has `most` rows. Each change adds a row of `act` to the audit
    log.
    """

    table: ClassVar[sa.Table]
    most: ClassVar[int]
    full: ClassVar[str]
    act: ClassVar[Act]

    @abstractmethod
    def _read(self, row: Any) -> Row:
        """Return the thing of a row."""

    @abstractmethod
    def _values(self, thing: Row) -> Mapping[str, Any]:
        """Return the values of a row, without its server, key and name."""

    async def of(self, guild_id: int) -> list[Row]:
        """Return all rows of a server, by name."""
        look = sa.select(self.table).where(self.table.c.guild_id == guild_id).order_by(self.table.c.key)
        async with self._database.read() as connection:
            return [self._read(row) for row in await connection.execute(look)]

    async def find(self, guild_id: int, name: str) -> Row | None:
        """Return the server's row of this name, in any spelling with the same key."""
        look = sa.select(self.table).where(self._is(guild_id, name))
        async with self._database.read() as connection:
            row = (await connection.execute(look)).one_or_none()
        return None if row is None else self._read(row)

    async def put(self, thing: Row, by: By) -> None:
        """Store a row of the server of `by`, in place of one of the same name.

        Raises UserMistake `full` for a new name where the server has `most` rows.
        """
        columns, key = self.table.c, key_of(thing.name)
        others = (columns.guild_id == by.guild_id) & (columns.key != key)
        values = {"name": thing.name, **self._values(thing)}
        async with self._database.write() as connection:
            await hold_server(connection, by.guild_id)
            count = await connection.scalar(sa.select(sa.func.count()).select_from(self.table).where(others))
            if (count or 0) >= self.most:
                raise UserMistake(self.full, limit=self.most)
            look = sa.select(self.table).where(self._is(by.guild_id, thing.name))
            before = (await connection.execute(look)).one_or_none()
            await connection.execute(
                insert(connection, self.table)
                .values(guild_id=by.guild_id, key=key, **values)
                .on_conflict_do_update(index_elements=[columns.guild_id, columns.key], set_=values)
            )
            await note(connection, self.act, by, at=self._clock(), before=self._logged(before), after=values)

    async def remove(self, name: str, by: By) -> bool:
        """Delete the row of this name of the server of `by`; return whether there was one."""
        gone = sa.delete(self.table).where(self._is(by.guild_id, name)).returning(*self.table.c)
        async with self._database.write() as connection:
            await hold_server(connection, by.guild_id)
            before = (await connection.execute(gone)).one_or_none()
            if before is not None:
                await note(connection, self.act, by, at=self._clock(), before=self._logged(before))
        return before is not None

    def _logged(self, row: Any) -> dict[str, Any] | None:
        return None if row is None else {"name": row.name, **self._values(self._read(row))}

    def _is(self, guild_id: int, name: str) -> sa.ColumnElement[bool]:
        return (self.table.c.guild_id == guild_id) & (self.table.c.key == key_of(name))
