"""Policies of servers, channels and roles."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v012"
down_revision = "v011"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "policies",
        sa.Column("guild_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("scope", sa.String(length=8), nullable=False),
        sa.Column("owner_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("values", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("guild_id", "scope", "owner_id", name=op.f("pk_policies")),
    )
