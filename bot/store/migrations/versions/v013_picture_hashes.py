"""Known pictures by their perceptual hashes: what was painted or sent, and what is blocked."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v013"
down_revision = "v012"

BANDS = 4


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "picture_hashes",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("index", sa.Integer(), nullable=False),
        sa.Column("guild_id", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.BigInteger(), nullable=False),
        *_bands(),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_picture_hashes_job_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_picture_hashes")),
        sa.UniqueConstraint("job_id", "index", name=op.f("uq_picture_hashes_job_id")),
    )
    op.create_table(
        "blocked_pictures",
        sa.Column("guild_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("hash", sa.BigInteger(), autoincrement=False, nullable=False),
        *_bands(),
        sa.Column("by", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.String(length=300), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("guild_id", "hash", name=op.f("pk_blocked_pictures")),
    )
    for table in ("picture_hashes", "blocked_pictures"):
        for band in range(BANDS):
            name = op.f(f"ix_{table}_guild_id_band_{band}")
            op.create_index(name, table, ["guild_id", f"band_{band}"])


def _bands() -> list[sa.Column[int]]:
    return [sa.Column(f"band_{band}", sa.Integer(), nullable=False) for band in range(BANDS)]
