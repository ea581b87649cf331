"""The queue's first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

# Written out, not taken from bot.jobs: a migration must not change when the code does.
_STATE = sa.Enum(
    "waiting", "running", "done", "failed", "cancelled", name="state", native_enum=False, length=16
)
_ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make every table."""
    _create_jobs()
    _create_images()
    _create_deliveries()
    _create_fairness()
    _create_measurements()


def _create_jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("interaction_id", sa.BigInteger(), nullable=False),
        sa.Column("interaction_token", sa.Text(), nullable=False),
        sa.Column("token_expires_at", sa.Double(), nullable=False),
        sa.Column("application_id", sa.BigInteger(), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("guild_id", sa.BigInteger()),
        sa.Column("channel_id", sa.BigInteger(), nullable=False),
        sa.Column("locale", sa.String(length=16), nullable=False),
        sa.Column("private", sa.Boolean(), nullable=False),
        sa.Column("recipe", sa.JSON(), nullable=False),
        sa.Column("state", _STATE, nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("started_at", sa.Double()),
        sa.Column("finished_at", sa.Double()),
        sa.Column("message_id", sa.BigInteger()),
        sa.Column("deleted_at", sa.Double()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
        sa.UniqueConstraint("interaction_id", name=op.f("uq_jobs_interaction_id")),
    )
    op.create_index(op.f("ix_jobs_state_user_id"), "jobs", ["state", "user_id"])


def _create_images() -> None:
    op.create_table(
        "images",
        sa.Column("id", _ROW_ID, nullable=False),
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("index", sa.Integer(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("lane", sa.String(length=255), nullable=False),
        sa.Column("steps", sa.Integer(), nullable=False),
        sa.Column("share", sa.Double(), nullable=False),
        sa.Column("tag", sa.Double(), nullable=False),
        sa.Column("state", _STATE, nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("worker", sa.String(length=255)),
        sa.Column("fencing_token", sa.BigInteger(), nullable=False),
        sa.Column("lease_expires_at", sa.Double()),
        sa.Column("worker_deaths", sa.Integer(), nullable=False),
        sa.Column("artifact", sa.String(length=255)),
        sa.Column("failure", sa.Text()),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_images_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_images")),
        sa.UniqueConstraint("job_id", "index", name=op.f("uq_images_job_id")),
    )
    op.create_index(op.f("ix_images_artifact"), "images", ["artifact"])
    op.create_index(op.f("ix_images_state_lane_tag_id"), "images", ["state", "lane", "tag", "id"])
    op.create_index(op.f("ix_images_state_tag_id"), "images", ["state", "tag", "id"])


def _create_deliveries() -> None:
    op.create_table(
        "deliveries",
        sa.Column("id", _ROW_ID, nullable=False),
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_try_at", sa.Double(), nullable=False),
        sa.Column("outcome", sa.Text()),
        sa.Column("message_id", sa.BigInteger()),
        sa.Column("settled_at", sa.Double()),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_deliveries_job_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deliveries")),
        sa.UniqueConstraint("job_id", "kind", name=op.f("uq_deliveries_job_id")),
    )
    op.create_index(op.f("ix_deliveries_outcome_next_try_at"), "deliveries", ["outcome", "next_try_at"])


def _create_fairness() -> None:
    op.create_table(
        "last_tags",
        sa.Column("user_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("tag", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("user_id", name=op.f("pk_last_tags")),
    )
    op.create_table(
        "virtual_clock",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_virtual_clock")),
    )
    op.execute(sa.text("INSERT INTO virtual_clock (id, time) VALUES (1, 0)"))


def _create_measurements() -> None:
    op.create_table(
        "run_times",
        sa.Column("lane", sa.String(length=255), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("seconds_per_step", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("lane", name=op.f("pk_run_times")),
    )
    op.create_table(
        "workers",
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("seats", sa.Integer(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_workers")),
    )
