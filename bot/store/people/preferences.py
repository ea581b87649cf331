"""Preferences of persons, channels and servers: options of /imagine, and whether previews are shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from bot.store.database.database import Verbs, put
from bot.store.tables.queue import preferences

PREVIEWS = "previews"
"""The preference whether previews are shown; all others are options of /imagine."""


class Scope(StrEnum):
    """The kind of owner of preferences."""

    ME = "me"
    CHANNEL = "channel"
    SERVER = "server"


@dataclass(frozen=True, kw_only=True)
class Owner:
    """The owner of preferences: the id of a person, a channel or a server."""

    scope: Scope
    id: int
    guild_id: int | None = None


def owners_at(*, user_id: int, channel_id: int | None, guild_id: int | None) -> list[Owner]:
    """Return the owners whose preferences apply to a person in a channel, the most specific first."""
    owners = [Owner(scope=Scope.ME, id=user_id)]
    if guild_id is not None and channel_id is not None:
        owners.append(Owner(scope=Scope.CHANNEL, id=channel_id, guild_id=guild_id))
        owners.append(Owner(scope=Scope.SERVER, id=guild_id, guild_id=guild_id))
    return owners


class Preferences(Verbs):
    """The verbs of preferences. Options are plain values by the names of options of /imagine."""

    async def of(self, *owners: Owner) -> list[dict[str, Any]]:
        """Return the options of each owner, in order; empty for an owner without any."""
        keys = [(owner.scope.value, owner.id) for owner in owners]
        # No IN over pairs: SQLite would read the rows of every owner of these scopes.
        key = ((preferences.c.scope == scope) & (preferences.c.owner_id == owner) for scope, owner in keys)
        rows = await self._rows(sa.select(preferences).where(sa.or_(sa.false(), *key)))
        found = {(row.scope, row.owner_id): dict(row.options) for row in rows}
        return [found.get(each, {}) for each in keys]

    async def nearest(self, name: str, *owners: Owner) -> Any:
        """Return the option of the first of these owners that has it, or None."""
        return next((options[name] for options in await self.of(*owners) if name in options), None)

    async def put(self, owner: Owner, options: Mapping[str, Any]) -> None:
        """Replace the options of an owner; without options its row is deleted."""
        mine = (preferences.c.scope == owner.scope.value) & (preferences.c.owner_id == owner.id)
        values = {"options": dict(options), "guild_id": owner.guild_id}
        async with self._database.write() as connection:
            if not options:
                await connection.execute(sa.delete(preferences).where(mine))
                return
            key = {"scope": owner.scope.value, "owner_id": owner.id}
            await put(connection, preferences, key, values)
