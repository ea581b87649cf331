"""Where a job's message is, and which jobs still hold the token of their interaction."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Add the column and the index, and forget messages of which nobody knows the channel any more."""
    op.add_column("jobs", sa.Column("message_channel_id", sa.BigInteger))
    op.execute(
        "UPDATE jobs SET message_id = NULL"
        " WHERE id IN (SELECT job_id FROM deliveries WHERE outcome = 'sent_directly')"
    )
    few = sa.text("interaction_token != ''")
    name = op.f("ix_jobs_holding_token")
    op.create_index(name, "jobs", ["token_expires_at"], sqlite_where=few, postgresql_where=few)
