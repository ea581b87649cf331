"""Previews of the images that are being painted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v006"
down_revision = "v005"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "previews",
        sa.Column("image_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("picture", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["image_id"], ["images.id"], name=op.f("fk_previews_image_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("image_id", name=op.f("pk_previews")),
    )
