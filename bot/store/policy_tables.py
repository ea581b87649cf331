"""The tables of policies."""

from __future__ import annotations

import sqlalchemy as sa

from bot.store.tables import metadata

policies = sa.Table(
    "policies",
    metadata,
    sa.Column("guild_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("scope", sa.String(8), primary_key=True),  # server, channel or role
    sa.Column("owner_id", sa.BigInteger, primary_key=True, autoincrement=False),  # of that
    sa.Column("values", sa.JSON, nullable=False),  # by key; a key that is not there is not said
)
