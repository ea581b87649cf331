"""Which images the devices had begun when their lease was lost, and how many leases each image has lost."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Add the columns. Each counted death was a lost lease, by which suspects are found from now on."""
    op.add_column("images", sa.Column("begun", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("images", sa.Column("leases_lost", sa.Integer, nullable=False, server_default="0"))
    op.execute(sa.text("UPDATE images SET leases_lost = worker_deaths WHERE worker_deaths > 0"))
    name, few = op.f("ix_images_suspected"), sa.text("leases_lost > 0")
    op.drop_index(name, "images")
    op.create_index(name, "images", ["tag", "id"], sqlite_where=few, postgresql_where=few)
