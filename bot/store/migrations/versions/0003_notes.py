"""What painting showed of each image."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the column; of pictures painted before nothing is known."""
    op.add_column("images", sa.Column("notes", sa.JSON()))
