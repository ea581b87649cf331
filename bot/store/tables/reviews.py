"""The tables of reviews."""

from __future__ import annotations

import sqlalchemy as sa

from bot.store.tables.queue import RowId, metadata

reviews = sa.Table(
    "reviews",
    metadata,
    sa.Column("id", RowId, primary_key=True),
    sa.Column("kind", sa.String(8), nullable=False),  # hold, report, appeal, or refused: not appealed yet
    sa.Column("guild_id", sa.BigInteger, nullable=False),
    sa.Column("job_id", sa.String(16)),  # null for a refused prompt; the job may be gone
    sa.Column("user_id", sa.BigInteger, nullable=False),  # whose picture or prompt; negative once erased
    sa.Column("rule", sa.String(255), nullable=False, server_default=""),
    sa.Column("words", sa.Text, nullable=False, server_default=""),  # of the person who appeals
    sa.Column("request", sa.JSON),  # of a refused prompt: what is painted if the appeal is accepted
    sa.Column("opened_at", sa.Double, nullable=False),
    sa.Column("due_at", sa.Double, nullable=False),
    sa.Column("outcome", sa.String(16)),  # null while it waits
    sa.Column("decided_at", sa.Double),
    sa.Column("decided_by", sa.BigInteger),
    sa.Column("reason", sa.Text, nullable=False, server_default=""),
    sa.Column("answer", sa.String(8)),  # to a declined prompt: due, or left for the person's next answer
    sa.Column("channel_id", sa.BigInteger),  # of the moderators' message
    sa.Column("message_id", sa.BigInteger),
    sa.Column("trouble", sa.String(32), nullable=False, server_default=""),
    sa.Column("claimed_by", sa.BigInteger),  # the moderator who looks at it
    sa.Column("claimed_until", sa.Double),
    sa.Index(None, "outcome", "due_at"),
    sa.Index(None, "guild_id", "outcome", "opened_at"),
    sa.Index(None, "job_id"),
    sa.Index(None, "decided_by"),
    sa.Index(None, "claimed_by"),
    sa.Index(None, "user_id", "kind", "opened_at"),
)

review_settings = sa.Table(
    "review_settings",
    metadata,
    sa.Column("guild_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("channel_id", sa.BigInteger),  # where moderators see what waits
    sa.Column("hours", sa.Integer, nullable=False),
    sa.Column("reports", sa.Integer, nullable=False),
)

reports = sa.Table(
    "reports",
    metadata,
    sa.Column("job_id", sa.ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("user_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("guild_id", sa.BigInteger, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Index(None, "user_id", "at"),
    sa.Index(None, "guild_id"),
)
