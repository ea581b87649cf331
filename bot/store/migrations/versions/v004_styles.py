"""Styles of servers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v004"
down_revision = "v003"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "styles",
        sa.Column("guild_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("prompt", sa.Text(), nullable=False),
        sa.Column("negative_prompt", sa.Text(), nullable=False),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.Column("example", sa.String(length=255), nullable=False),
        sa.PrimaryKeyConstraint("guild_id", "key", name=op.f("pk_styles")),
    )
