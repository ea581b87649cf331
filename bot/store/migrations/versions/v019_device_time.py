"""The devices' time by day, person, server, model and class of accelerators."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v019"
down_revision = "v018"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "device_time",
        sa.Column("day", sa.String(length=10), nullable=False),
        sa.Column("user_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("guild_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("model", sa.String(length=255), nullable=False),
        sa.Column("accelerator", sa.String(length=64), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("pictures", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint(
            "day", "user_id", "guild_id", "model", "accelerator", name=op.f("pk_device_time")
        ),
    )
    op.create_index(op.f("ix_device_time_user_id"), "device_time", ["user_id"])
