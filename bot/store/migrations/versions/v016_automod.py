"""Servers that switch Discord's AutoMod rules on or off for prompts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v016"
down_revision = "v015"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "automod",
        sa.Column("guild_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("applied", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("guild_id", name=op.f("pk_automod")),
    )
