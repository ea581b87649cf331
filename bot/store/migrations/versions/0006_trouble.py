"""Why an image that is being painted began anew."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the column; workers fill it with their next heartbeats."""
    op.add_column("images", sa.Column("trouble", sa.Text()))
