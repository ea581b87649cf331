"""What was decided on each picture, and which jobs had their appeal."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v022"
down_revision = "v021"

# Until now a job had one ruling: the last.
_RULINGS = """
UPDATE images SET ruling = (SELECT jobs.ruling FROM jobs WHERE jobs.id = images.job_id)
WHERE images.showing = 'withhold' AND images.artifact IS NOT NULL
"""
_APPEALS = """
UPDATE jobs SET appealed = true
WHERE jobs.id IN (SELECT reviews.job_id FROM reviews WHERE reviews.kind = 'appeal')
"""


def upgrade() -> None:
    """Add the columns, with what is known."""
    op.add_column("images", sa.Column("ruling", sa.String(length=16)))
    op.add_column("jobs", sa.Column("appealed", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.execute(_RULINGS)
    op.execute(_APPEALS)
