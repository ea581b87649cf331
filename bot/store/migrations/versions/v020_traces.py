"""The trace that a job belongs to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v020"
down_revision = "v019"


def upgrade() -> None:
    """Add the column."""
    op.add_column("jobs", sa.Column("traceparent", sa.String(length=55), nullable=True))
