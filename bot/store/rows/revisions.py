"""Revisions of what servers say: their rules on prompts, their policies, and the AutoMod switch.

Triggers give a server a new revision in every transaction that changes one of these, also when an older
version of the bot or another program writes. A front keeps what a server says with its revision, and reads it
again where the revision is another one. A revision is a random number and no counter: a counter would repeat
a value for other rules after the rows of a server are erased, or after an older database is restored. A
server without a row has none of these.
"""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.store.database.database import insert
from bot.store.tables.policies import server_revisions

_BITS = 53


async def hold_server(connection: AsyncConnection, guild_id: int) -> None:
    """Lock a server until the transaction ends, so that writers that count its rows run one at a time.

    Call it before any other row of the server is locked. The server gets a row where it has none.
    """
    add = insert(connection, server_revisions).values(guild_id=guild_id, revision=secrets.randbits(_BITS))
    same = {"revision": server_revisions.c.revision}
    await connection.execute(
        add.on_conflict_do_update(index_elements=[server_revisions.c.guild_id], set_=same)
    )


async def forget_server(connection: AsyncConnection, guild_id: int) -> None:
    """Delete the revision of a server, after everything that it says."""
    await connection.execute(sa.delete(server_revisions).where(server_revisions.c.guild_id == guild_id))
