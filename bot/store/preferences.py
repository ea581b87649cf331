"""Preferences: the options of /imagine that persons, channels and servers have instead of the model's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from bot.store.database import Verbs, insert
from bot.store.tables import preferences


class Scope(StrEnum):
    """Whose preferences they are."""

    ME = "me"
    CHANNEL = "channel"
    SERVER = "server"


@dataclass(frozen=True, kw_only=True)
class Owner:
    """The owner of preferences: the id of a person, a channel or a server."""

    scope: Scope
    id: int
    guild_id: int | None = None


class Preferences(Verbs):
    """The verbs of preferences. Options are plain values by the names of options of /imagine."""

    async def of(self, *owners: Owner) -> list[dict[str, Any]]:
        """Return the options of each owner, in order; empty for an owner without any."""
        keys = [(owner.scope.value, owner.id) for owner in owners]
        key = sa.tuple_(preferences.c.scope, preferences.c.owner_id)
        async with self._database.read() as connection:
            rows = await connection.execute(sa.select(preferences).where(key.in_(keys)))
            found = {(row.scope, row.owner_id): dict(row.options) for row in rows}
        return [found.get(each, {}) for each in keys]

    async def put(self, owner: Owner, options: Mapping[str, Any]) -> None:
        """Replace the options of an owner; without options its row goes."""
        mine = (preferences.c.scope == owner.scope.value) & (preferences.c.owner_id == owner.id)
        values = {"options": dict(options), "guild_id": owner.guild_id}
        async with self._database.write() as connection:
            if not options:
                await connection.execute(sa.delete(preferences).where(mine))
                return
            await connection.execute(
                insert(connection, preferences)
                .values(scope=owner.scope.value, owner_id=owner.id, **values)
                .on_conflict_do_update(
                    index_elements=[preferences.c.scope, preferences.c.owner_id], set_=values
                )
            )
