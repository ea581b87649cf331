"""What people are called where they asked, so that moderators can tell their requests apart."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Add the column; of jobs that are stored already the names are not known."""
    op.add_column("jobs", sa.Column("user_name", sa.String(100), server_default="", nullable=False))
