"""A request counts against the caps for what it costs; those that wait already count for one picture each."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Make the column."""
    op.add_column("jobs", sa.Column("places", sa.Integer, nullable=False, server_default="1"))
