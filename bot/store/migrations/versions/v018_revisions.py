"""Revisions of what servers say, and the channels of threads, so that a pause of a channel holds in them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v018"
down_revision = "v017"

_SAID_IN = ("prompt_rules", "policies", "automod")
_ACTS = {"INSERT": ("new",), "UPDATE": ("old", "new"), "DELETE": ("old",)}
_ANY = {"sqlite": "random()", "postgresql": "CAST(random() * 9007199254740992 AS BIGINT)"}
_RENEW = """
    INSERT INTO server_revisions (guild_id, revision) VALUES ({row}.guild_id, {any})
    ON CONFLICT (guild_id) DO UPDATE SET revision = excluded.revision
"""
_FIRST = """
    INSERT INTO server_revisions (guild_id, revision)
    SELECT guild_id, {any} FROM (
        SELECT guild_id FROM prompt_rules UNION SELECT guild_id FROM policies
        UNION SELECT guild_id FROM automod
    ) AS servers
"""
# As in v017, with the pauses of a thread's channel.
_VIEW = """
CREATE VIEW fleet_demand (lane, model, accelerator, work_seconds, images, oldest, running) AS
WITH unmarked AS (
    SELECT images.id FROM restrictions
    JOIN jobs ON jobs.guild_id = restrictions.guild_id
    AND restrictions.channel_id IN (0, jobs.channel_id, jobs.thread_parent_id)
    JOIN images ON images.job_id = jobs.id
    WHERE restrictions.kind = 'pause' AND jobs.state IN ('waiting', 'running') AND jobs.paused = false
    AND images.state = 'waiting' AND images.paused = false
), open AS (
    SELECT lane, count(*) AS images, sum(steps) AS steps, min(images.id) AS oldest, 0 AS running
    FROM images LEFT JOIN unmarked ON unmarked.id = images.id
    WHERE state = 'waiting' AND paused = false AND unmarked.id IS NULL GROUP BY lane
    UNION ALL
    SELECT lane, 0, 0, NULL, count(*) FROM images WHERE state = 'running' GROUP BY lane
), lanes AS (
    SELECT lane, sum(images) AS images, sum(steps) AS steps, min(oldest) AS oldest, sum(running) AS running
    FROM open GROUP BY lane
)
SELECT lanes.lane, {model}, accelerators.name,
    CAST(lanes.steps * coalesce(
        own.seconds_per_step,
        (SELECT avg(others.seconds_per_step) FROM class_run_times AS others WHERE others.lane = lanes.lane),
        0.5
    ) AS DOUBLE PRECISION),
    CAST(lanes.images AS BIGINT),
    (SELECT jobs.created_at FROM images JOIN jobs ON jobs.id = images.job_id WHERE images.id = lanes.oldest),
    CAST(lanes.running AS BIGINT)
FROM lanes CROSS JOIN accelerators
LEFT JOIN class_run_times AS own ON own.lane = lanes.lane AND own.accelerator = accelerators.name
"""
_MODEL = {
    "postgresql": "split_part(lanes.lane, ':', 1)",
    "sqlite": "substr(lanes.lane, 1, instr(lanes.lane, ':') - 1)",
}


def upgrade() -> None:
    """Create the table and its triggers, add the column, and make the view again."""
    dialect = op.get_bind().dialect.name
    op.create_table(
        "server_revisions",
        sa.Column("guild_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("guild_id", name=op.f("pk_server_revisions")),
    )
    # A server without a row says nothing.
    op.execute(_FIRST.format(any=_ANY[dialect]))
    for statement in _on_sqlite() if dialect == "sqlite" else _on_postgresql():
        op.execute(statement)
    op.add_column("jobs", sa.Column("thread_parent_id", sa.BigInteger()))
    op.execute("DROP VIEW fleet_demand")
    op.execute(_VIEW.format(model=_MODEL[dialect]))


def _on_sqlite() -> list[str]:
    """Return a trigger for each table and act."""
    return [
        f"CREATE TRIGGER {table}_{act.lower()}_renews AFTER {act} ON {table} BEGIN "
        + "".join(f"{_RENEW.format(row=row, any=_ANY['sqlite'])};" for row in rows)
        + " END"
        for table in _SAID_IN
        for act, rows in _ACTS.items()
    ]


def _on_postgresql() -> list[str]:
    """Return the function, and a trigger for each table."""
    old, new = (_RENEW.format(row=row, any=_ANY["postgresql"]) for row in ("old", "new"))
    function = f"""
    CREATE FUNCTION renew_server_revision() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP <> 'INSERT' THEN {old}; END IF;
        IF TG_OP <> 'DELETE' THEN {new}; END IF;
        RETURN NULL;
    END
    $$
    """
    triggers = (
        f"CREATE TRIGGER {table}_renews AFTER INSERT OR UPDATE OR DELETE ON {table} "
        "FOR EACH ROW EXECUTE FUNCTION renew_server_revision()"
        for table in _SAID_IN
    )
    return [function, *triggers]
