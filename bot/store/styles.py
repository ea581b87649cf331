"""Styles: texts around a prompt, and options, that a server keeps under a name."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from bot.errors import UserMistake
from bot.store.database import Verbs, insert
from bot.store.tables import styles

MAX_STYLES = 100  # of one server


@dataclass(frozen=True, kw_only=True)
class Style:
    """One style. `options` are values by the names of options of /imagine.

    `example` is the address of a message that shows a picture of this style; empty without one.
    """

    name: str
    prompt: str = ""
    negative_prompt: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    example: str = ""


def key_of(name: str) -> str:
    """Return what all spellings of a name share: letter case, spaces and composed letters do not count."""
    return " ".join(unicodedata.normalize("NFC", name).casefold().split())


class Styles(Verbs):
    """The verbs of styles."""

    async def of(self, guild_id: int) -> list[Style]:
        """Return the styles of a server, by name."""
        look = sa.select(styles).where(styles.c.guild_id == guild_id).order_by(styles.c.key)
        async with self._database.read() as connection:
            return [_style(row) for row in await connection.execute(look)]

    async def find(self, guild_id: int, name: str) -> Style | None:
        """Return the server's style of this name, in any letter case."""
        look = sa.select(styles).where(_is(guild_id, name))
        async with self._database.read() as connection:
            row = (await connection.execute(look)).one_or_none()
        return None if row is None else _style(row)

    async def put(self, guild_id: int, style: Style) -> None:
        """Store a style, in place of one of the same name.

        Raises UserMistake `styles_full` for a new name where the server has MAX_STYLES.
        """
        others = (styles.c.guild_id == guild_id) & (styles.c.key != key_of(style.name))
        values = {
            "name": style.name,
            "prompt": style.prompt,
            "negative_prompt": style.negative_prompt,
            "options": dict(style.options),
            "example": style.example,
        }
        async with self._database.write() as connection:
            count = await connection.scalar(sa.select(sa.func.count()).select_from(styles).where(others))
            if (count or 0) >= MAX_STYLES:
                raise UserMistake("styles_full", limit=MAX_STYLES)
            await connection.execute(
                insert(connection, styles)
                .values(guild_id=guild_id, key=key_of(style.name), **values)
                .on_conflict_do_update(index_elements=[styles.c.guild_id, styles.c.key], set_=values)
            )

    async def remove(self, guild_id: int, name: str) -> bool:
        """Delete the server's style of this name; return whether there was one."""
        gone = sa.delete(styles).where(_is(guild_id, name)).returning(styles.c.key)
        async with self._database.write() as connection:
            return (await connection.execute(gone)).one_or_none() is not None


def _is(guild_id: int, name: str) -> sa.ColumnElement[bool]:
    return (styles.c.guild_id == guild_id) & (styles.c.key == key_of(name))


def _style(row: Any) -> Style:
    return Style(
        name=row.name,
        prompt=row.prompt,
        negative_prompt=row.negative_prompt,
        options=dict(row.options),
        example=row.example,
    )
