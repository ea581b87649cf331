"""The tables of group sessions, on the same metadata as the queue's."""

from __future__ import annotations

import sqlalchemy as sa

from bot.store.tables.queue import RowId, metadata

sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("id", sa.String(16), primary_key=True),
    sa.Column("guild_id", sa.BigInteger, nullable=False),
    sa.Column("channel_id", sa.BigInteger, nullable=False),
    sa.Column("open_channel_id", sa.BigInteger, unique=True),  # null once closed: one open session a channel
    sa.Column("host_id", sa.BigInteger, nullable=False),  # 0 once erased
    sa.Column("locale", sa.String(16), nullable=False),
    sa.Column("plan", sa.JSON, nullable=False),
    sa.Column("phase", sa.String(16), nullable=False),
    sa.Column("round", sa.Integer, nullable=False),
    sa.Column("paused_at", sa.Double),
    sa.Column("opened_at", sa.Double, nullable=False),
    sa.Column("collect_until", sa.Double),  # when the round's unfinished pictures are waited for no longer
    sa.Column("closed_at", sa.Double),
    sa.Column("settled", sa.Boolean, nullable=False, server_default=sa.false()),  # closed, and all is shown
    sa.Column("board_id", sa.BigInteger),
    sa.Column("boards", sa.Integer, nullable=False, server_default="0"),  # how many were deleted
    sa.Column("keeper", sa.String(255)),  # the front that edits the board and sends the posts
    sa.Column("keeper_token", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("kept_until", sa.Double),
    sa.Index(None, "guild_id", "open_channel_id"),
    sa.Index(None, "host_id"),
    sa.Index(None, "settled"),
    sa.Index(None, "closed_at"),
)

session_timers = sa.Table(
    "session_timers",
    metadata,
    sa.Column("session_id", sa.ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("kind", sa.String(16), primary_key=True),
    sa.Column("due_at", sa.Double),  # null in a pause
    sa.Column("left", sa.Double),  # seconds; null while it runs
    sa.Index(None, "due_at"),
)

session_jobs = sa.Table(
    "session_jobs",
    metadata,
    sa.Column("job_id", sa.ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("session_id", sa.ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    sa.Column("round", sa.Integer, nullable=False),
    sa.Column("user_id", sa.BigInteger, nullable=False),
    sa.Index(None, "session_id", "round", "user_id"),
)

session_tags = sa.Table(
    "session_tags",  # as last_tags, of a person in a session
    metadata,
    sa.Column("session_id", sa.ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("user_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("tag", sa.Double, nullable=False),
    sa.Index(None, "user_id"),
)

session_entries = sa.Table(
    "session_entries",  # the pictures of a round that is over, as the ballot numbers them
    metadata,
    sa.Column("session_id", sa.ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("round", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("job_id", sa.ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    sa.Column("index", sa.Integer, nullable=False),
    sa.Index(None, "job_id"),
)

session_votes = sa.Table(
    "session_votes",
    metadata,
    sa.Column("session_id", sa.ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("round", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("voter_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("job_id", sa.ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    sa.Index(None, "voter_id"),
    sa.Index(None, "job_id"),
)

session_posts = sa.Table(
    "session_posts",  # messages that are sent once
    metadata,
    sa.Column("id", RowId, primary_key=True),
    sa.Column("session_id", sa.ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("round", sa.Integer, nullable=False),  # 0 for the whole session
    sa.Column("page", sa.Integer, nullable=False),
    sa.Column("ballot", sa.Boolean, nullable=False),
    sa.UniqueConstraint("session_id", "kind", "round", "page"),
)
