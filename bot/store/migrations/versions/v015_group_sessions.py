"""Group sessions: rounds, timers, votes, and the messages that show them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v015"
down_revision = "v014"

_ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create the tables."""
    _create_sessions()
    _create_timers()
    _create_jobs()
    _create_entries()
    _create_votes()
    _create_posts()


def _id() -> sa.Column[str]:
    return sa.Column("session_id", sa.String(length=16), nullable=False)


def _of_session(table: str) -> sa.ForeignKeyConstraint:
    name = op.f(f"fk_{table}_session_id_sessions")
    return sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=name, ondelete="CASCADE")


def _of_job(table: str) -> sa.ForeignKeyConstraint:
    name = op.f(f"fk_{table}_job_id_jobs")
    return sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=name, ondelete="CASCADE")


def _index(table: str, *columns: str) -> None:
    op.create_index(op.f(f"ix_{table}_{'_'.join(columns)}"), table, list(columns))


def _create_sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("guild_id", sa.BigInteger(), nullable=False),
        sa.Column("channel_id", sa.BigInteger(), nullable=False),
        sa.Column("open_channel_id", sa.BigInteger(), nullable=True),
        sa.Column("host_id", sa.BigInteger(), nullable=False),
        sa.Column("locale", sa.String(length=16), nullable=False),
        sa.Column("plan", sa.JSON(), nullable=False),
        sa.Column("phase", sa.String(length=16), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("paused_at", sa.Double(), nullable=True),
        sa.Column("opened_at", sa.Double(), nullable=False),
        sa.Column("collect_until", sa.Double(), nullable=True),
        sa.Column("closed_at", sa.Double(), nullable=True),
        sa.Column("settled", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("board_id", sa.BigInteger(), nullable=True),
        sa.Column("boards", sa.Integer(), server_default="0", nullable=False),
        sa.Column("keeper", sa.String(length=255), nullable=True),
        sa.Column("keeper_token", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("kept_until", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
        sa.UniqueConstraint("open_channel_id", name=op.f("uq_sessions_open_channel_id")),
    )
    for column in ("guild_id", "settled", "closed_at"):
        _index("sessions", column)


def _create_timers() -> None:
    op.create_table(
        "session_timers",
        _id(),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("due_at", sa.Double(), nullable=True),
        sa.Column("left", sa.Double(), nullable=True),
        _of_session("session_timers"),
        sa.PrimaryKeyConstraint("session_id", "kind", name=op.f("pk_session_timers")),
    )
    _index("session_timers", "due_at")


def _create_jobs() -> None:
    op.create_table(
        "session_jobs",
        sa.Column("job_id", sa.String(length=16), nullable=False),
        _id(),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        _of_job("session_jobs"),
        _of_session("session_jobs"),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_session_jobs")),
    )
    _index("session_jobs", "session_id", "round", "user_id")
    op.create_table(
        "session_tags",
        _id(),
        sa.Column("user_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("tag", sa.Double(), nullable=False),
        _of_session("session_tags"),
        sa.PrimaryKeyConstraint("session_id", "user_id", name=op.f("pk_session_tags")),
    )
    _index("session_tags", "user_id")


def _create_entries() -> None:
    op.create_table(
        "session_entries",
        _id(),
        sa.Column("round", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("index", sa.Integer(), nullable=False),
        _of_session("session_entries"),
        _of_job("session_entries"),
        sa.PrimaryKeyConstraint("session_id", "round", "number", name=op.f("pk_session_entries")),
    )
    _index("session_entries", "job_id")


def _create_votes() -> None:
    op.create_table(
        "session_votes",
        _id(),
        sa.Column("round", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("voter_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.String(length=16), nullable=False),
        _of_session("session_votes"),
        _of_job("session_votes"),
        sa.PrimaryKeyConstraint("session_id", "round", "voter_id", name=op.f("pk_session_votes")),
    )
    _index("session_votes", "voter_id")
    _index("session_votes", "job_id")


def _create_posts() -> None:
    op.create_table(
        "session_posts",
        sa.Column("id", _ROW_ID, nullable=False),
        _id(),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("page", sa.Integer(), nullable=False),
        sa.Column("ballot", sa.Boolean(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_try_at", sa.Double(), nullable=False),
        sa.Column("outcome", sa.String(length=32), nullable=True),
        _of_session("session_posts"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_session_posts")),
        sa.UniqueConstraint("session_id", "kind", "round", "page", name=op.f("uq_session_posts_session_id")),
    )
