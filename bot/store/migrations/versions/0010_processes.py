"""Which processes share the queue, which of them shows a job, and whose turn a delivery is."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Make the table and the columns; jobs that are stored already belong to the first front that looks."""
    op.create_table(
        "processes",
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("secret", sa.String(length=64), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("machine", sa.String(length=255), nullable=False),
        sa.Column("place", sa.Text(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_processes")),
    )
    op.add_column("jobs", sa.Column("front", sa.String(length=255)))
    op.create_index(op.f("ix_jobs_front_state"), "jobs", ["front", "state"])
    op.add_column(
        "deliveries", sa.Column("fencing_token", sa.BigInteger(), nullable=False, server_default="0")
    )
