"""Blocks and pauses, and the audit log, to which rows are only added."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v009"
down_revision = "v008"

REFUSAL = "the audit log is append-only"
# The one change: a person's id becomes a negative number.
_ON_SQLITE = (
    f"""
    CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
    WHEN NOT (
        new.id IS old.id AND new.at IS old.at AND new.guild_id IS old.guild_id AND new.act IS old.act
        AND new.reason IS old.reason AND new.before IS old.before AND new.after IS old.after
        AND (new.actor_id IS old.actor_id OR (old.actor_id > 0 AND new.actor_id < 0))
        AND (new.subject_id IS old.subject_id OR (old.subject_id > 0 AND new.subject_id < 0))
    )
    BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END
    """,
    f"""
    CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit
    BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END
    """,
)
_ON_POSTGRESQL = (
    f"""
    CREATE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'UPDATE' THEN
            IF to_jsonb(new) - 'actor_id' - 'subject_id' = to_jsonb(old) - 'actor_id' - 'subject_id'
                AND (new.actor_id = old.actor_id OR (old.actor_id > 0 AND new.actor_id < 0))
                AND (new.subject_id = old.subject_id OR (old.subject_id > 0 AND new.subject_id < 0))
            THEN
                RETURN new;
            END IF;
        END IF;
        RAISE EXCEPTION '{REFUSAL}' USING ERRCODE = 'integrity_constraint_violation';
    END
    $$
    """,
    """
    CREATE TRIGGER audit_is_not_changed BEFORE UPDATE OR DELETE ON audit
    FOR EACH ROW EXECUTE FUNCTION audit_is_append_only()
    """,
    """
    CREATE TRIGGER audit_is_not_emptied BEFORE TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only()
    """,
)


def upgrade() -> None:
    """Create the tables and the triggers."""
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "restrictions",
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("guild_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("channel_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("user_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("until", sa.Double()),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("by", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "guild_id", "channel_id", "user_id", name=op.f("pk_restrictions")),
    )
    op.create_table(
        "audit",
        sa.Column("id", number, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("guild_id", sa.BigInteger(), nullable=False),
        sa.Column("actor_id", sa.BigInteger(), nullable=False),
        sa.Column("subject_id", sa.BigInteger(), nullable=False),
        sa.Column("act", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("before", sa.JSON()),
        sa.Column("after", sa.JSON()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_index(op.f("ix_audit_guild_id_id"), "audit", ["guild_id", "id"])
    for statement in _ON_SQLITE if op.get_bind().dialect.name == "sqlite" else _ON_POSTGRESQL:
        op.execute(statement)
