"""The queue's tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v001"
down_revision = None

# Written out, not taken from bot.store.tables.queue: a migration must not change when the code does.
_STATE = sa.Enum(
    "waiting", "running", "done", "failed", "cancelled", name="state", native_enum=False, length=16
)
_FILE_STATE = sa.Enum("kept", "going", "gone", "wanted", name="filestate", native_enum=False, length=8)
_SHOWING = sa.Enum("show", "spoiler", "withhold", name="showing", native_enum=False, length=16)
_ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make every table."""
    _create_jobs()
    _create_images()
    _create_files()
    _create_deliveries()
    _create_fair_order()
    _create_workers()
    _create_processes()


def _create_jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("interaction_id", sa.BigInteger(), nullable=False),
        sa.Column("interaction_token", sa.Text(), nullable=False),
        sa.Column("token_expires_at", sa.Double(), nullable=False),
        sa.Column("application_id", sa.BigInteger(), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("user_name", sa.String(length=100), server_default="", nullable=False),
        sa.Column("guild_id", sa.BigInteger()),
        sa.Column("channel_id", sa.BigInteger(), nullable=False),
        sa.Column("locale", sa.String(length=16), nullable=False),
        sa.Column("private", sa.Boolean(), nullable=False),
        sa.Column("age_restricted", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("recipe", sa.JSON(), nullable=False),
        sa.Column("state", _STATE, nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("started_at", sa.Double()),
        sa.Column("finished_at", sa.Double()),
        sa.Column("message_id", sa.BigInteger()),
        sa.Column("message_channel_id", sa.BigInteger()),
        sa.Column("deleted_at", sa.Double()),
        sa.Column("seed_sequence", sa.String(length=16)),
        sa.Column("repeat", sa.Integer()),
        sa.Column("tag", sa.Double(), server_default="0", nullable=False),
        sa.Column("places", sa.Integer(), server_default="1", nullable=False),
        sa.Column("slowed", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("front", sa.String(length=255)),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
        sa.UniqueConstraint("interaction_id", name=op.f("uq_jobs_interaction_id")),
    )
    op.create_index(op.f("ix_jobs_seed_sequence_repeat"), "jobs", ["seed_sequence", "repeat"], unique=True)
    op.create_index(op.f("ix_jobs_finished_at"), "jobs", ["finished_at"])
    op.create_index(op.f("ix_jobs_front_state"), "jobs", ["front", "state"])
    op.create_index(
        "ix_jobs_holding_token",
        "jobs",
        ["token_expires_at"],
        sqlite_where=sa.text("interaction_token != ''"),
        postgresql_where=sa.text("interaction_token != ''"),
    )
    op.create_index(
        op.f("ix_jobs_state_guild_id_tag_interaction_id"),
        "jobs",
        ["state", "guild_id", "tag", "interaction_id"],
    )
    op.create_index(op.f("ix_jobs_state_tag_interaction_id"), "jobs", ["state", "tag", "interaction_id"])
    op.create_index(op.f("ix_jobs_state_user_id"), "jobs", ["state", "user_id"])
    op.create_index(op.f("ix_jobs_user_id_interaction_id"), "jobs", ["user_id", "interaction_id"])


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
        sa.Column("lead", sa.Double(), server_default="0", nullable=False),
        sa.Column("state", _STATE, nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("furthest", sa.Integer(), server_default="0", nullable=False),
        sa.Column("worker", sa.String(length=255)),
        sa.Column("fencing_token", sa.BigInteger(), nullable=False),
        sa.Column("lease_expires_at", sa.Double()),
        sa.Column("begun", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("worker_deaths", sa.Integer(), nullable=False),
        sa.Column("leases_lost", sa.Integer(), server_default="0", nullable=False),
        sa.Column("artifact", sa.String(length=255)),
        sa.Column("failure", sa.Text()),
        sa.Column("trouble", sa.Text()),
        sa.Column("notes", sa.JSON()),
        sa.Column("showing", _SHOWING, server_default="show", nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_images_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_images")),
        sa.UniqueConstraint("job_id", "index", name=op.f("uq_images_job_id")),
    )
    op.create_index(op.f("ix_images_artifact"), "images", ["artifact"])
    op.create_index(
        "ix_images_maybe_poison",
        "images",
        ["tag", "id"],
        sqlite_where=sa.text("leases_lost > 0"),
        postgresql_where=sa.text("leases_lost > 0"),
    )
    op.create_index(
        op.f("ix_images_state_lane_tag_id_steps"), "images", ["state", "lane", "tag", "id", "steps"]
    )
    op.create_index(op.f("ix_images_state_tag_id"), "images", ["state", "tag", "id"])


def _create_files() -> None:
    op.create_table(
        "departures",
        sa.Column("guild_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("left_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("guild_id", name=op.f("pk_departures")),
    )
    op.create_table(
        "files",
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("bytes", sa.BigInteger()),
        sa.Column("state", _FILE_STATE, nullable=False),
        sa.Column("changed_at", sa.Double(), nullable=False),
        sa.Column("used_at", sa.Double(), nullable=False),
        sa.Column("leased_until", sa.Double()),
        sa.Column("failure", sa.Text()),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_files")),
    )
    op.create_index(op.f("ix_files_state_used_at"), "files", ["state", "used_at"])
    op.create_table(
        "start_pictures",
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("artifact", sa.String(length=255), nullable=False),
        sa.Column("source", sa.String(length=8), server_default="own", nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_start_pictures_job_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "artifact", name=op.f("pk_start_pictures")),
    )
    op.create_index(op.f("ix_start_pictures_artifact"), "start_pictures", ["artifact"])


def _create_deliveries() -> None:
    op.create_table(
        "deliveries",
        sa.Column("id", _ROW_ID, nullable=False),
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("fencing_token", sa.BigInteger(), server_default="0", nullable=False),
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


def _create_fair_order() -> None:
    op.create_table(
        "last_tags",
        sa.Column("user_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("tag", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("user_id", name=op.f("pk_last_tags")),
    )
    op.create_table(
        "turns",
        sa.Column("scope", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("scope", name=op.f("pk_turns")),
    )
    op.create_table(
        "virtual_clock",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_virtual_clock")),
    )
    op.execute(sa.text("INSERT INTO virtual_clock (id, time) VALUES (1, 0)"))


def _create_workers() -> None:
    op.create_table(
        "published_offers",
        sa.Column("model", sa.String(length=255), nullable=False),
        sa.Column("offer", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("model", name=op.f("pk_published_offers")),
    )
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
    op.create_table(
        "offered_lanes",
        sa.Column("worker", sa.String(length=255), nullable=False),
        sa.Column("lane", sa.String(length=255), nullable=False),
        sa.Column("seats", sa.Integer(), server_default="1", nullable=False),
        sa.ForeignKeyConstraint(
            ["worker"], ["workers.name"], name=op.f("fk_offered_lanes_worker"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("worker", "lane", name=op.f("pk_offered_lanes")),
    )
    op.create_index(op.f("ix_offered_lanes_lane"), "offered_lanes", ["lane"])


def _create_processes() -> None:
    op.create_table(
        "duties",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("holder", sa.String(length=255), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_duties")),
    )
    op.create_table(
        "processes",
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("secret", sa.String(length=64), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("machine", sa.String(length=255), nullable=False),
        sa.Column("place", sa.Text(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_processes")),
    )
