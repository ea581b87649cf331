"""What the safety checker found decides how a picture is shown, and so does its channel."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

_SHOWING = sa.Enum("show", "spoiler", "withhold", name="showing", native_enum=False, length=16)


def upgrade() -> None:
    """Add the columns: all that was painted before is shown."""
    restricted: sa.Column[bool] = sa.Column(
        "age_restricted", sa.Boolean(), nullable=False, server_default=sa.false()
    )
    op.add_column("jobs", restricted)
    op.add_column("images", sa.Column("showing", _SHOWING, nullable=False, server_default="show"))
