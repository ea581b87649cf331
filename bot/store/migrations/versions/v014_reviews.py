"""Why the pictures of a job are held for review, and what moderators decided."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v014"
down_revision = "v011"


def upgrade() -> None:
    """Add the columns."""
    op.add_column("jobs", sa.Column("hold", sa.String(length=16)))
    op.add_column("jobs", sa.Column("hold_rule", sa.String(length=255), server_default="", nullable=False))
    op.add_column("jobs", sa.Column("ruling", sa.String(length=16)))
    op.add_column("jobs", sa.Column("ruling_reason", sa.Text(), server_default="", nullable=False))
