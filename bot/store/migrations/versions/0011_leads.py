"""How far behind virtual time each image came in: who will go ahead of those that wait is told from that."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Add the column; of images that are stored already it is not known and matters for minutes only."""
    op.add_column("images", sa.Column("lead", sa.Double(), server_default="0", nullable=False))
