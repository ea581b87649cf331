"""The tables of known pictures: hashes of what was painted or sent, and of what is blocked."""

from __future__ import annotations

import sqlalchemy as sa

from bot.domain.hashes import BANDS
from bot.store.tables.queue import RowId, metadata


def _bands() -> list[sa.Column[int]]:
    return [sa.Column(f"band_{band}", sa.Integer, nullable=False) for band in range(BANDS)]


def _indexes() -> list[sa.Index]:
    return [sa.Index(None, "guild_id", f"band_{band}") for band in range(BANDS)]


picture_hashes = sa.Table(
    "picture_hashes",
    metadata,
    sa.Column("id", RowId, primary_key=True),
    sa.Column("job_id", sa.ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    sa.Column("index", sa.Integer, nullable=False),  # of the image; -1 for the picture it started from
    sa.Column("guild_id", sa.BigInteger, nullable=False),  # 0 for a direct message
    sa.Column("hash", sa.BigInteger, nullable=False),
    *_bands(),
    sa.UniqueConstraint("job_id", "index"),
    *_indexes(),
)

blocked_pictures = sa.Table(
    "blocked_pictures",
    metadata,
    sa.Column("guild_id", sa.BigInteger, primary_key=True, autoincrement=False),  # 0 for every server
    sa.Column("hash", sa.BigInteger, primary_key=True, autoincrement=False),
    *_bands(),
    sa.Column("by", sa.BigInteger, nullable=False),  # 0 for the operator
    sa.Column("reason", sa.String(300), nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Index(None, "by"),
    *_indexes(),
)
