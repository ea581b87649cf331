"""Jobs that were asked for where the bot is not: with the bot in the person's own account."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v008"
down_revision = "v007"


def upgrade() -> None:
    """Add the column."""
    op.add_column("jobs", sa.Column("external", sa.Boolean(), server_default=sa.false(), nullable=False))
