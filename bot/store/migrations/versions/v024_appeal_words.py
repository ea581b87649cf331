"""What a person says with an appeal."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v024"
down_revision = "v023"


def upgrade() -> None:
    """Add the column, empty for the appeals of before."""
    op.add_column("reviews", sa.Column("words", sa.Text(), server_default="", nullable=False))
