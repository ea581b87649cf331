"""Which job another came from: one picture of it, a repeat, a variation or an enlargement."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v002"
down_revision = "v001"

DESCENTS = ("single", "repeat", "variation", "enlargement", "remix", "publication")


def upgrade() -> None:
    """Add the columns; a job that is stored already has no parent."""
    op.add_column("jobs", sa.Column("parent_id", sa.String(length=16)))
    op.add_column("jobs", sa.Column("parent_index", sa.Integer()))
    op.add_column("jobs", sa.Column("parent_channel_id", sa.BigInteger()))
    op.add_column("jobs", sa.Column("parent_message_id", sa.BigInteger()))
    op.add_column("jobs", sa.Column("descent", sa.Enum(*DESCENTS, native_enum=False, length=16)))
    op.create_index(op.f("ix_jobs_parent_id"), "jobs", ["parent_id"])
