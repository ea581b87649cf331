"""What models are offered with, for those who cannot read their checkpoints."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Make the table; workers fill it when they next start."""
    op.create_table(
        "published_offers",
        sa.Column("model", sa.String(length=255), nullable=False),
        sa.Column("offer", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("model", name=op.f("pk_published_offers")),
    )
