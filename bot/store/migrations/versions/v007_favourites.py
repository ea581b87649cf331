"""Favourites of persons, and jobs by the message that shows them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v007"
down_revision = "v006"


def upgrade() -> None:
    """Create the table and the index."""
    op.create_table(
        "favourites",
        sa.Column("user_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_favourites_job_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("user_id", "job_id", name=op.f("pk_favourites")),
    )
    op.create_index(op.f("ix_favourites_job_id"), "favourites", ["job_id"])
    op.create_index(op.f("ix_jobs_message_id"), "jobs", ["message_id"])
