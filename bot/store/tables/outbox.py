"""The table of the outbox: messages that must reach Discord once."""

from __future__ import annotations

import sqlalchemy as sa

from bot.store.tables.queue import RowId, jobs, metadata
from bot.store.tables.reviews import reviews
from bot.store.tables.sessions import session_posts


def _subject(key: sa.Column[object]) -> sa.ForeignKey:
    return sa.ForeignKey(key, ondelete="CASCADE")


outbox = sa.Table(
    "outbox",  # `kind` says which one of the three ids is not null
    metadata,
    sa.Column("id", RowId, primary_key=True),
    sa.Column("kind", sa.String(8), nullable=False),  # result, review or post
    sa.Column("job_id", _subject(jobs.c.id), unique=True),
    sa.Column("review_id", _subject(reviews.c.id), unique=True),
    sa.Column("post_id", _subject(session_posts.c.id), unique=True),
    sa.Column("front", sa.String(255)),  # that has claimed it; results and posts follow their job or session
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("fencing_token", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("next_try_at", sa.Double, nullable=False),
    sa.Column("outcome", sa.Text),  # null until it is settled
    sa.Column("settled_at", sa.Double),
    sa.Index(None, "kind", "outcome", "next_try_at"),
    sqlite_autoincrement=True,  # no id is used again, so a claim of a deleted row matches no new one
)
