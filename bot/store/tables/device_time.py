"""The table of the devices' time."""

from __future__ import annotations

import sqlalchemy as sa

from bot.store.tables.fleet import MOST_CHARACTERS
from bot.store.tables.queue import metadata

device_time = sa.Table(
    "device_time",  # one row for each day (UTC), person, server, model and class; see `fold`
    metadata,
    sa.Column("day", sa.String(10), primary_key=True),  # such as 2026-03-01, or a month
    sa.Column("user_id", sa.BigInteger, primary_key=True, autoincrement=False),  # negative once erased
    sa.Column("guild_id", sa.BigInteger, primary_key=True, autoincrement=False),  # 0 for direct messages
    sa.Column("model", sa.String(255), primary_key=True),
    sa.Column("accelerator", sa.String(MOST_CHARACTERS), primary_key=True),
    sa.Column("seconds", sa.Double, nullable=False),  # of all devices together
    sa.Column("pictures", sa.Integer, nullable=False),
    sa.Index(None, "user_id"),
)
