"""The tables of accelerator classes, their run times and the devices' time, and of awaited offers."""

from __future__ import annotations

import sqlalchemy as sa

from bot.store.tables.queue import metadata

MOST_CHARACTERS = 64  # of a class of accelerators

accelerators = sa.Table(
    "accelerators",
    metadata,
    sa.Column("name", sa.String(MOST_CHARACTERS), primary_key=True),
)

class_run_times = sa.Table(
    "class_run_times",
    metadata,
    sa.Column("lane", sa.String(255), primary_key=True),
    sa.Column("accelerator", sa.String(MOST_CHARACTERS), primary_key=True),
    sa.Column("seconds_per_step", sa.Double, nullable=False),  # moving mean, of a worker with full seats
)

awaited_offers = sa.Table(
    "awaited_offers",  # models that a front cannot offer before a worker has read their files
    metadata,
    sa.Column("model", sa.String(255), primary_key=True),
    sa.Column("until", sa.Double, nullable=False),
)


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
