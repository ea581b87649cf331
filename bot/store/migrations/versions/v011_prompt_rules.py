"""Rules that servers keep about the words of prompts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v011"
down_revision = "v010"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "prompt_rules",
        sa.Column("guild_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("channel_id", sa.BigInteger(), nullable=True),
        sa.Column("action", sa.String(length=16), nullable=False),
        sa.Column("terms", sa.JSON(), nullable=False),
        sa.Column("also", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("guild_id", "key", name=op.f("pk_prompt_rules")),
    )
