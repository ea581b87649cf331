"""The models whose offers fronts wait for: the demand asks for a worker that publishes them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v021"
down_revision = "v020"

# As in v018, with a row for each awaited model.
_VIEW = """
{create} VIEW fleet_demand (lane, model, accelerator, work_seconds, images, oldest, running) AS
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
UNION ALL
SELECT CAST(awaited_offers.model || ':' AS VARCHAR(255)), CAST(awaited_offers.model AS TEXT),
    accelerators.name, CAST(1 AS DOUBLE PRECISION), CAST(0 AS BIGINT),
    CAST(NULL AS DOUBLE PRECISION), CAST(0 AS BIGINT)
FROM awaited_offers CROSS JOIN accelerators WHERE awaited_offers.until > {now}
"""
# A view that is replaced keeps the rights of roles.
_CREATE = {"postgresql": "CREATE OR REPLACE", "sqlite": "CREATE"}
_MODEL = {
    "postgresql": "split_part(lanes.lane, ':', 1)",
    "sqlite": "substr(lanes.lane, 1, instr(lanes.lane, ':') - 1)",
}
_NOW = {
    "postgresql": "extract(epoch FROM clock_timestamp())",
    "sqlite": "(julianday('now') - 2440587.5) * 86400.0",
}


def upgrade() -> None:
    """Create the table, and make the view again."""
    dialect = op.get_bind().dialect.name
    op.create_table(
        "awaited_offers",
        sa.Column("model", sa.String(length=255), nullable=False),
        sa.Column("until", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("model", name=op.f("pk_awaited_offers")),
    )
    if dialect == "sqlite":
        op.execute("DROP VIEW fleet_demand")
    op.execute(_VIEW.format(create=_CREATE[dialect], model=_MODEL[dialect], now=_NOW[dialect]))
