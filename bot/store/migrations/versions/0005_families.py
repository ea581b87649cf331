"""Which job a job repeats, and which of its repeats it is, so that seeds follow each other."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the columns; every job that is stored already is the first of a family of its own."""
    op.add_column("jobs", sa.Column("family", sa.String(length=16)))
    op.add_column("jobs", sa.Column("repeat", sa.Integer()))
    op.create_index(op.f("ix_jobs_family_repeat"), "jobs", ["family", "repeat"], unique=True)
