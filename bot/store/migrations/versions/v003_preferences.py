"""Options that persons, channels and servers prefer."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v003"
down_revision = "v002"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "preferences",
        sa.Column("scope", sa.String(length=8), nullable=False),
        sa.Column("owner_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("guild_id", sa.BigInteger()),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("scope", "owner_id", name=op.f("pk_preferences")),
    )
    op.create_index(op.f("ix_preferences_guild_id"), "preferences", ["guild_id"])
