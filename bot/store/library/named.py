"""Rows of a server with names: the base of the verbs of styles, wildcards and prompt rules."""

from __future__ import annotations

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.errors import UserMistake
from bot.store.database.database import Verbs, count_of, put
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

    @staticmethod
    @abstractmethod
    def _read(row: Any) -> Row:
        """Return the thing of a row."""

    @staticmethod
    @abstractmethod
    def _values(thing: Row) -> Mapping[str, Any]:
        """Return the values of a row, without its server, key and name."""

    async def of(self, guild_id: int) -> list[Row]:
        """Return all rows of a server, by name."""
        async with self._database.read() as connection:
            return await self.all_of(connection, guild_id)

    @classmethod
    async def all_of(cls, connection: AsyncConnection, guild_id: int) -> list[Row]:
        """Return what `of` returns, within a transaction."""
        look = sa.select(cls.table).where(cls.table.c.guild_id == guild_id).order_by(cls.table.c.key)
        return [cls._read(row) for row in await connection.execute(look)]

    async def find(self, guild_id: int, name: str) -> Row | None:
        """Return the server's row of this name, in any spelling with the same key."""
        look = sa.select(self.table).where(self._is(guild_id, name))
        row = await self._row(look)
        return None if row is None else self._read(row)

    async def put(self, thing: Row, by: By) -> None:
        """Store a row of the server of `by`, in place of one of the same name.

        Raises UserMistake `full` where the server has `most` others.
        """
        same = self._is(by.guild_id, thing.name)
        values = {"name": thing.name, **self._values(thing)}
        async with self._database.write() as connection:
            await hold_server(connection, by.guild_id)
            if (
                await count_of(connection, self.table, self.table.c.guild_id == by.guild_id, ~same)
                >= self.most
            ):
                raise UserMistake(self.full, limit=self.most)
            before = (await connection.execute(sa.select(self.table).where(same))).one_or_none()
            key = {"guild_id": by.guild_id, "key": key_of(thing.name)}
            await put(connection, self.table, key, values)
            await note(connection, self.act, by, at=self._clock(), before=self._logged(before), after=values)

    async def remove(self, name: str, by: By) -> Row | None:
        """Delete the row of this name of the server of `by`, and return it; None where there is none."""
        gone = sa.delete(self.table).where(self._is(by.guild_id, name)).returning(*self.table.c)
        async with self._database.write() as connection:
            await hold_server(connection, by.guild_id)
            before = (await connection.execute(gone)).one_or_none()
            if before is None:
                return None
            await note(connection, self.act, by, at=self._clock(), before=self._logged(before))
        return self._read(before)

    def _logged(self, row: Any) -> dict[str, Any] | None:
        return None if row is None else {"name": row.name, **self._values(self._read(row))}

    def _is(self, guild_id: int, name: str) -> sa.ColumnElement[bool]:
        return (self.table.c.guild_id == guild_id) & (self.table.c.key == key_of(name))
