"""Indexes for tables that grow, and the end of old rows of the audit log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v023"
down_revision = "v022"

_INDEXES = (
    ("audit", ("guild_id", "act", "id")),
    ("audit", ("actor_id", "guild_id", "id")),
    ("audit", ("subject_id", "guild_id", "id")),
    ("restrictions", ("until",)),
    ("restrictions", ("user_id",)),
    ("restrictions", ("by",)),
    ("blocked_pictures", ("by",)),
    ("reviews", ("decided_by",)),
    ("sessions", ("guild_id", "open_channel_id")),
    ("sessions", ("host_id",)),
)
_REFUSAL = "the audit log is append-only"
_LEAST_SECONDS = 30 * 86_400
_ON_SQLITE = (
    "DROP TRIGGER audit_is_not_deleted",
    f"""
    CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit
    WHEN old.at > CAST(strftime('%s', 'now') AS REAL) - {_LEAST_SECONDS}
    BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END
    """,
)
_ON_POSTGRESQL = (
    f"""
    CREATE OR REPLACE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'UPDATE' THEN
            IF to_jsonb(new) - 'actor_id' - 'subject_id' = to_jsonb(old) - 'actor_id' - 'subject_id'
                AND (new.actor_id = old.actor_id OR (old.actor_id > 0 AND new.actor_id < 0))
                AND (new.subject_id = old.subject_id OR (old.subject_id > 0 AND new.subject_id < 0))
            THEN
                RETURN new;
            END IF;
        ELSIF TG_OP = 'DELETE' THEN
            IF old.at <= extract(epoch FROM clock_timestamp()) - {_LEAST_SECONDS} THEN
                RETURN old;
            END IF;
        END IF;
        RAISE EXCEPTION '{_REFUSAL}' USING ERRCODE = 'integrity_constraint_violation';
    END
    $$
    """,
)


def upgrade() -> None:
    """Create the indexes, and let rows of the log be deleted once they are 30 days old."""
    ended = sa.text("finished_at IS NOT NULL")
    op.create_index(
        op.f("ix_jobs_ended_of_server"),
        "jobs",
        ["guild_id", "finished_at"],
        sqlite_where=ended,
        postgresql_where=ended,
        if_not_exists=True,
    )
    for table, columns in _INDEXES:
        name = op.f(f"ix_{table}_{'_'.join(columns)}")
        op.create_index(name, table, list(columns), if_not_exists=True)
    op.drop_index(op.f("ix_sessions_guild_id"), "sessions", if_exists=True)
    for statement in _ON_SQLITE if op.get_bind().dialect.name == "sqlite" else _ON_POSTGRESQL:
        op.execute(sa.text(statement))
