"""The tables of policies, their charges, and the AutoMod switches of servers."""

from __future__ import annotations

import sqlalchemy as sa

from bot.store.tables.queue import metadata

automod = sa.Table(
    "automod",  # servers whose moderators have used the switch
    metadata,
    sa.Column("guild_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("applied", sa.Boolean, nullable=False),
)


policies = sa.Table(
    "policies",
    metadata,
    sa.Column("guild_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("scope", sa.String(8), primary_key=True),  # server, channel or role
    sa.Column("owner_id", sa.BigInteger, primary_key=True, autoincrement=False),  # the scope's id
    sa.Column("values", sa.JSON, nullable=False),  # by key; the policy says nothing about a missing key
)

server_revisions = sa.Table(
    "server_revisions",  # triggers renew them with every change of rules, policies and the AutoMod switch
    metadata,
    sa.Column("guild_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("revision", sa.BigInteger, nullable=False),
)

charges = sa.Table(
    "charges",  # what jobs count against quotas; a row outlives its job
    metadata,
    sa.Column("job_id", sa.String(16), primary_key=True),
    sa.Column("user_id", sa.BigInteger, nullable=False),
    sa.Column("guild_id", sa.BigInteger, nullable=False),  # 0 for a direct message
    sa.Column("channel_id", sa.BigInteger, nullable=False),
    sa.Column("parent_channel_id", sa.BigInteger, nullable=False),  # of a thread; else 0
    sa.Column("at", sa.Double, nullable=False),
    sa.Column(
        "pictures", sa.Integer, nullable=False
    ),  # without those that failed, were cancelled or withheld
    sa.Column("cost", sa.Double, nullable=False),  # of one picture
    sa.Index(None, "user_id", "at"),
    sa.Index(None, "at"),
)
