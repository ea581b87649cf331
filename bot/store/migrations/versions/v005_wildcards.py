"""Wildcards of servers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v005"
down_revision = "v004"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "wildcards",
        sa.Column("guild_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("entries", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("guild_id", "key", name=op.f("pk_wildcards")),
    )
