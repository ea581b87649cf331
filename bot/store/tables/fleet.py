"""The tables of accelerator classes and their run times, and of the models that wait for a first worker."""

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
