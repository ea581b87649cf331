"""What each worker offers to paint."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the table; workers fill it when they next announce themselves."""
    op.create_table(
        "offered_lanes",
        sa.Column("worker", sa.String(length=255), nullable=False),
        sa.Column("lane", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(
            ["worker"], ["workers.name"], name=op.f("fk_offered_lanes_worker"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("worker", "lane", name=op.f("pk_offered_lanes")),
    )
    op.create_index(op.f("ix_offered_lanes_lane"), "offered_lanes", ["lane"])
