"""Whether a pause holds a job and its images: claims and counts skip them in their indexes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v010"
down_revision = "v009"

_INDEXES = {
    "jobs": (["state", "tag", "interaction_id"], ["state", "paused", "tag", "interaction_id"]),
    "images": (["state", "tag", "id"], ["state", "paused", "tag", "id"]),
}
_LANES = (["state", "lane", "tag", "id", "steps"], ["state", "paused", "lane", "tag", "id", "steps"])


def upgrade() -> None:
    """Add the columns, and put them into the indexes of the fair order."""
    for table in ("jobs", "images"):
        op.add_column(table, sa.Column("paused", sa.Boolean(), server_default=sa.false(), nullable=False))
    for table, (before, after) in (*_INDEXES.items(), ("images", _LANES)):
        op.drop_index(op.f(_name(table, before)), table)
        op.create_index(op.f(_name(table, after)), table, after)


def _name(table: str, columns: list[str]) -> str:
    return f"ix_{table}_{'_'.join(columns)}"
