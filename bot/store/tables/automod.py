"""The table of servers that have their say on Discord's AutoMod rules."""

from __future__ import annotations

import sqlalchemy as sa

from bot.store.tables.queue import metadata

automod = sa.Table(
    "automod",  # servers whose moderators have used the switch
    metadata,
    sa.Column("guild_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("applied", sa.Boolean, nullable=False),
)
