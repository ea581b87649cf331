"""What is known of each file, so that results can be bounded and lost ones painted again; who sweeps."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Make the tables, and note the files that jobs name; how long those are is found by the first sweep."""
    op.create_table(
        "files",
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("bytes", sa.BigInteger()),
        sa.Column("state", sa.String(length=8), nullable=False),
        sa.Column("changed_at", sa.Double(), nullable=False),
        sa.Column("used_at", sa.Double(), nullable=False),
        sa.Column("leased_until", sa.Double()),
        sa.Column("failure", sa.Text()),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_files")),
    )
    op.create_table(
        "duties",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("holder", sa.String(length=255), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_duties")),
    )
    op.execute(
        "INSERT INTO files (name, state, changed_at, used_at)"
        " SELECT artifact, 'kept', max(created_at), max(created_at) FROM ("
        " SELECT images.artifact, coalesce(jobs.finished_at, jobs.created_at) AS created_at"
        " FROM images JOIN jobs ON jobs.id = images.job_id WHERE images.artifact IS NOT NULL"
        " UNION ALL SELECT start_pictures.artifact, jobs.created_at"
        " FROM start_pictures JOIN jobs ON jobs.id = start_pictures.job_id) AS named GROUP BY artifact"
    )
    op.create_index(op.f("ix_files_state_used_at"), "files", ["state", "used_at"])
    op.create_index(op.f("ix_jobs_finished_at"), "jobs", ["finished_at"])
