"""How long an image of a lane takes beside its steps."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v025"
down_revision = "v024"


def upgrade() -> None:
    """Add the column; the next images of each lane measure it."""
    op.add_column("run_times", sa.Column("beside_steps", sa.Double(), server_default="0", nullable=False))
