"""Which files jobs start from, so that none is deleted while another job needs it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the table; no job that is stored already starts from a picture."""
    op.create_table(
        "start_pictures",
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("artifact", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_start_pictures_job_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "artifact", name=op.f("pk_start_pictures")),
    )
    op.create_index(op.f("ix_start_pictures_artifact"), "start_pictures", ["artifact"])
