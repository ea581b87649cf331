"""Where jobs stand, told from indexes alone however many wait; who was slowed, and the seats of each lane."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_FIRST_TAG = "UPDATE jobs SET tag = (SELECT coalesce(min(tag), 0) FROM images WHERE images.job_id = jobs.id)"
_SEATS = "UPDATE offered_lanes SET seats = (SELECT seats FROM workers WHERE workers.name = worker)"


def upgrade() -> None:
    """Add the columns and indexes, and give every job that is stored already its first image's tag."""
    op.add_column("jobs", sa.Column("tag", sa.Double(), server_default="0", nullable=False))
    op.add_column("jobs", sa.Column("slowed", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.execute(_FIRST_TAG)
    order = ["tag", "interaction_id"]
    op.create_index(op.f("ix_jobs_state_tag_interaction_id"), "jobs", ["state", *order])
    op.create_index(op.f("ix_jobs_state_guild_id_tag_interaction_id"), "jobs", ["state", "guild_id", *order])
    op.create_index(op.f("ix_jobs_user_id_interaction_id"), "jobs", ["user_id", "interaction_id"])
    op.drop_index(op.f("ix_images_state_lane_tag_id"), "images")
    work = ["state", "lane", "tag", "id", "steps"]
    op.create_index(op.f("ix_images_state_lane_tag_id_steps"), "images", work)
    op.add_column("offered_lanes", sa.Column("seats", sa.Integer(), server_default="1", nullable=False))
    op.execute(_SEATS)
    op.create_table(
        "turns",
        sa.Column("scope", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("scope", name=op.f("pk_turns")),
    )
