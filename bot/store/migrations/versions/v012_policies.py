"""Policies of servers, channels and roles, what requests count, and what policies say about a job."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v012"
down_revision = "v011"


def upgrade() -> None:
    """Create the tables and the column."""
    op.create_table(
        "policies",
        sa.Column("guild_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("scope", sa.String(length=8), nullable=False),
        sa.Column("owner_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("values", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("guild_id", "scope", "owner_id", name=op.f("pk_policies")),
    )
    op.create_table(
        "charges",
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("guild_id", sa.BigInteger(), nullable=False),
        sa.Column("channel_id", sa.BigInteger(), nullable=False),
        sa.Column("parent_channel_id", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("pictures", sa.Integer(), nullable=False),
        sa.Column("cost", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_charges")),
    )
    op.create_index(op.f("ix_charges_at"), "charges", ["at"])
    op.create_index(op.f("ix_charges_user_id_at"), "charges", ["user_id", "at"])
    op.add_column("jobs", sa.Column("policy", sa.JSON(), nullable=True))
