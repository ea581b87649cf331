"""Reviews, reports and appeals; why the pictures of a job are held, and what moderators decided."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v014"
down_revision = "v013"

_INDEXES = (
    ["next_try_at"],
    ["outcome", "due_at"],
    ["guild_id", "outcome", "opened_at"],
    ["job_id"],
    ["user_id", "kind", "opened_at"],
)


def upgrade() -> None:
    """Add the columns and the tables."""
    op.add_column("jobs", sa.Column("hold", sa.String(length=16)))
    op.add_column("jobs", sa.Column("hold_rule", sa.String(length=255), server_default="", nullable=False))
    op.add_column("jobs", sa.Column("ruling", sa.String(length=16)))
    op.add_column("jobs", sa.Column("ruling_reason", sa.Text(), server_default="", nullable=False))
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "reviews",
        sa.Column("id", number, nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("guild_id", sa.BigInteger(), nullable=False),
        sa.Column("job_id", sa.String(length=16)),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("rule", sa.String(length=255), server_default="", nullable=False),
        sa.Column("request", sa.JSON()),
        sa.Column("opened_at", sa.Double(), nullable=False),
        sa.Column("due_at", sa.Double(), nullable=False),
        sa.Column("outcome", sa.String(length=16)),
        sa.Column("decided_at", sa.Double()),
        sa.Column("decided_by", sa.BigInteger()),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.Column("answer", sa.String(length=8)),
        sa.Column("channel_id", sa.BigInteger()),
        sa.Column("message_id", sa.BigInteger()),
        sa.Column("next_try_at", sa.Double()),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("fencing_token", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("trouble", sa.String(length=32), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reviews")),
    )
    for columns in _INDEXES:
        op.create_index(op.f(f"ix_reviews_{'_'.join(columns)}"), "reviews", columns)
    op.create_table(
        "review_settings",
        sa.Column("guild_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("channel_id", sa.BigInteger()),
        sa.Column("hours", sa.Integer(), nullable=False),
        sa.Column("reports", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("guild_id", name=op.f("pk_review_settings")),
    )
    op.create_table(
        "reports",
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("user_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("guild_id", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_reports_job_id_jobs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "user_id", name=op.f("pk_reports")),
    )
    op.create_index(op.f("ix_reports_user_id_at"), "reports", ["user_id", "at"])
    op.create_index(op.f("ix_reports_guild_id"), "reports", ["guild_id"])
