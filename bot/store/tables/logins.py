"""The table of logins at the operators' page."""

from __future__ import annotations

import sqlalchemy as sa

from bot.store.tables.queue import metadata

logins = sa.Table(
    "logins",
    metadata,
    sa.Column("hash", sa.String(64), primary_key=True),  # of the secret, which is nowhere in the database
    sa.Column("kind", sa.String(8), nullable=False),  # a link that is used once, or a session
    sa.Column("user_id", sa.BigInteger, nullable=False),  # 0 for the operator
    sa.Column("made_at", sa.Double, nullable=False),
    sa.Column("seen_at", sa.Double, nullable=False),
    sa.Column("expires_at", sa.Double, nullable=False),
    sa.Index(None, "user_id"),
    sa.Index(None, "expires_at"),
)
