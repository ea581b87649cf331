"""The tables of accelerator classes: which there are, and how long each takes for a step of a lane."""

from __future__ import annotations

import sqlalchemy as sa

from bot.store.tables import metadata

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
