"""The most steps that an image has ever made, so that the progress people see never falls."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Add the column, and fill it with the steps of the present attempts."""
    op.add_column("images", sa.Column("furthest", sa.Integer(), server_default="0", nullable=False))
    op.execute("UPDATE images SET furthest = step WHERE step > 0")
