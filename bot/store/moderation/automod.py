"""Whether a server's AutoMod rules are applied to prompts."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.store.database.database import Verbs, put
from bot.store.rows.audit import Act, By, note
from bot.store.rows.revisions import hold_server
from bot.store.tables.policies import automod

NAME = "AutoMod"
"""How the log names it among the rules."""


class Automod(Verbs):
    """The verbs of the switch, which is on until a moderator switches it off."""

    async def is_applied(self, guild_id: int) -> bool:
        """Return whether the rules are applied."""
        async with self._database.read() as connection:
            return await is_applied(connection, guild_id)

    async def apply(self, applied: bool, by: By) -> None:
        """Switch the rules on or off; a change is logged."""
        async with self._database.write() as connection:
            await hold_server(connection, by.guild_id)
            if (before := await is_applied(connection, by.guild_id)) == applied:
                return
            await put(connection, automod, {"guild_id": by.guild_id}, {"applied": applied})
            was, will = _logged(applied=before), _logged(applied=applied)
            await note(connection, Act.RULE, by, at=self._clock(), before=was, after=will)


async def is_applied(connection: AsyncConnection, guild_id: int) -> bool:
    """Return whether the rules are applied in a server."""
    look = sa.select(automod.c.applied).where(automod.c.guild_id == guild_id)
    return await connection.scalar(look) is not False


def _logged(*, applied: bool) -> dict[str, str | bool]:
    return {"name": NAME, "applied": applied}
