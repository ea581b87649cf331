"""Classes of accelerators with their run times, and the view of the work that waits for each."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v017"
down_revision = "v016"

FIRST_CLASSES = ("cpu", "nvidia", "tpu")
"""Known from the start, so that a scaler can start the first worker."""
FALLBACK = 0.5
"""Seconds of a worker for a step, where no class has painted the lane yet."""

_MODEL = {
    "postgresql": "split_part(lanes.lane, ':', 1)",
    "sqlite": "substr(lanes.lane, 1, instr(lanes.lane, ':') - 1)",
}
# Waiting rows are only counted, in the index of their lane. A job stored while a pause starts may lack
# the mark: `unmarked` has its images, found from the pauses. Ids grow with time, so the least is the oldest.
_VIEW = """
CREATE VIEW fleet_demand (lane, model, accelerator, work_seconds, images, oldest, running) AS
WITH unmarked AS (
    SELECT images.id FROM restrictions
    JOIN jobs ON jobs.guild_id = restrictions.guild_id AND restrictions.channel_id IN (0, jobs.channel_id)
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
        {fallback}
    ) AS DOUBLE PRECISION),
    CAST(lanes.images AS BIGINT),
    (SELECT jobs.created_at FROM images JOIN jobs ON jobs.id = images.job_id WHERE images.id = lanes.oldest),
    CAST(lanes.running AS BIGINT)
FROM lanes CROSS JOIN accelerators
LEFT JOIN class_run_times AS own ON own.lane = lanes.lane AND own.accelerator = accelerators.name
"""


def upgrade() -> None:
    """Create the tables and the view."""
    known = op.create_table(
        "accelerators",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_accelerators")),
    )
    op.create_table(
        "class_run_times",
        sa.Column("lane", sa.String(length=255), nullable=False),
        sa.Column("accelerator", sa.String(length=64), nullable=False),
        sa.Column("seconds_per_step", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("lane", "accelerator", name=op.f("pk_class_run_times")),
    )
    op.bulk_insert(known, [{"name": name} for name in FIRST_CLASSES])
    model = _MODEL[op.get_bind().dialect.name]
    op.execute(_VIEW.format(model=model, fallback=FALLBACK))
