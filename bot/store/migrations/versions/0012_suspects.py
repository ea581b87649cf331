"""Images that a worker died over are found at once, being few."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Make the index."""
    few = sa.text("worker_deaths > 0")
    name = op.f("ix_images_suspected")
    op.create_index(name, "images", ["tag", "id"], sqlite_where=few, postgresql_where=few)
