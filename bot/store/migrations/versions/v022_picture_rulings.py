"""What was decided on each picture, and the state of a job's appeal."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v022"
down_revision = "v021"

# Until now a job had one ruling, which an appeal replaced: reviews know what was decided before.
_RULINGS = """
UPDATE images SET ruling = CASE WHEN
    EXISTS (SELECT 1 FROM jobs WHERE jobs.id = images.job_id AND jobs.ruling = 'expired')
    AND NOT EXISTS (
        SELECT 1 FROM reviews
        WHERE reviews.job_id = images.job_id AND reviews.kind <> 'appeal' AND reviews.outcome = 'rejected'
    ) THEN 'expired' ELSE 'rejected' END
WHERE images.showing = 'withhold' AND images.artifact IS NOT NULL
"""
_REASONS = """
UPDATE images SET ruling_reason = coalesce(
    (
        SELECT jobs.ruling_reason FROM jobs
        WHERE jobs.id = images.job_id AND jobs.ruling IN ('rejected', 'declined') AND jobs.ruling_reason <> ''
    ),
    (
        SELECT max(reviews.reason) FROM reviews
        WHERE reviews.job_id = images.job_id AND reviews.kind <> 'appeal' AND reviews.outcome = 'rejected'
    ),
    ''
)
WHERE images.ruling = 'rejected'
"""
_APPEALS = """
UPDATE jobs SET appeal = (
    SELECT CASE max(reviews.outcome) WHEN 'declined' THEN 'declined' WHEN 'expired' THEN 'expired'
    WHEN 'shown' THEN 'accepted' WHEN 'spoiler' THEN 'accepted' ELSE 'open' END
    FROM reviews WHERE reviews.job_id = jobs.id AND reviews.kind = 'appeal'
)
WHERE jobs.id IN (SELECT reviews.job_id FROM reviews WHERE reviews.kind = 'appeal')
"""


def upgrade() -> None:
    """Add the columns, with what is known."""
    op.add_column("jobs", sa.Column("appeal", sa.String(length=16)))  # first: verbs lock jobs before images
    op.add_column("images", sa.Column("ruling", sa.String(length=16)))
    op.add_column("images", sa.Column("ruling_reason", sa.Text(), server_default="", nullable=False))
    for statement in (_RULINGS, _REASONS, _APPEALS):
        op.execute(statement)
