"""Whose a picture to start from is, which servers sent the bot away, and no words of deleted jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Add the column and the table; what an image painted was sent by nobody, what is repeated by another."""
    source: sa.Column[str] = sa.Column("source", sa.String(length=8), nullable=False, server_default="own")
    op.add_column("start_pictures", source)
    repeats = "SELECT id FROM jobs WHERE family IS NOT NULL"
    op.execute(sa.text(f"UPDATE start_pictures SET source = 'lent' WHERE job_id IN ({repeats})"))  # noqa: S608
    painted = "SELECT 1 FROM images WHERE images.artifact = start_pictures.artifact"
    op.execute(sa.text(f"UPDATE start_pictures SET source = 'painted' WHERE EXISTS ({painted})"))  # noqa: S608
    op.create_table(
        "departures",
        sa.Column("guild_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("left_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("guild_id", name=op.f("pk_departures")),
    )
    _forget_words()


def _forget_words() -> None:
    """Take from jobs that were deleted until now what was said for them."""
    jobs = sa.table(
        "jobs",
        *(sa.column(name, sa.String) for name in ("id", "interaction_token", "user_name")),
        sa.column("recipe", sa.JSON),
        sa.column("deleted_at", sa.Double),
    )
    images = sa.table("images", sa.column("job_id", sa.String), sa.column("notes", sa.JSON))
    connection = op.get_bind()
    silent: dict[str, object] = {
        "prompt": "",
        "negative_prompt": "",
        "init_image": None,
        "mask_image": None,
        "loras": [],
    }
    for row in connection.execute(sa.select(jobs).where(jobs.c.deleted_at.is_not(None))).all():
        values = {"recipe": {**row.recipe, **silent}, "interaction_token": "", "user_name": ""}
        connection.execute(sa.update(jobs).where(jobs.c.id == row.id).values(values))
        connection.execute(sa.update(images).where(images.c.job_id == row.id).values(notes=sa.null()))
