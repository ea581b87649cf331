"""How a policy has the pictures of each level of a job shown."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v013"
down_revision = "v012"


def upgrade() -> None:
    """Add the column."""
    op.add_column("jobs", sa.Column("showings", sa.String(length=32), nullable=True))
