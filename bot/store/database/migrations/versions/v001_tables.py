"""The queue's tables, its triggers, and the view of the work that waits."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v001"
down_revision = None

# Written out, not taken from bot.store.tables: a migration must not change when the code does.
_TABLES = """
CREATE TABLE jobs (
    id VARCHAR(16) NOT NULL, interaction_id BIGINT NOT NULL, interaction_token TEXT NOT NULL,
    token_expires_at {double} NOT NULL, application_id BIGINT NOT NULL, user_id BIGINT NOT NULL,
    user_name VARCHAR(100) DEFAULT '' NOT NULL, guild_id BIGINT, channel_id BIGINT NOT NULL,
    locale VARCHAR(16) NOT NULL, private BOOLEAN NOT NULL, channel_kind VARCHAR(16) DEFAULT 'plain' NOT NULL,
    recipe JSON NOT NULL, state VARCHAR(16) NOT NULL, created_at {double} NOT NULL, started_at {double},
    finished_at {double}, message_id BIGINT, message_channel_id BIGINT, deleted_at {double},
    seed_sequence VARCHAR(16), repeat INTEGER, tag {double} DEFAULT '0' NOT NULL,
    places INTEGER DEFAULT '1' NOT NULL, slowed BOOLEAN DEFAULT {false} NOT NULL,
    paused BOOLEAN DEFAULT {false} NOT NULL, paused_alone BOOLEAN DEFAULT {false} NOT NULL,
    front VARCHAR(255), parent_id VARCHAR(16),
    parent_index INTEGER, parent_channel_id BIGINT, parent_message_id BIGINT, descent VARCHAR(16),
    external BOOLEAN DEFAULT {false} NOT NULL, hold VARCHAR(16), hold_rule VARCHAR(255) DEFAULT '' NOT NULL,
    ruling VARCHAR(16), ruling_reason TEXT DEFAULT '' NOT NULL, appeal VARCHAR(16), thread_parent_id BIGINT,
    policy JSON, traceparent VARCHAR(55),
    CONSTRAINT pk_jobs PRIMARY KEY (id),
    CONSTRAINT uq_jobs_interaction_id UNIQUE (interaction_id)
);
CREATE INDEX ix_jobs_finished_at ON jobs (finished_at);
CREATE INDEX ix_jobs_front_state ON jobs (front, state);
CREATE INDEX ix_jobs_ended_of_person ON jobs (user_id, finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX ix_jobs_ended_of_server ON jobs (guild_id, finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX ix_jobs_message_id ON jobs (message_id);
CREATE INDEX ix_jobs_parent_id ON jobs (parent_id);
CREATE UNIQUE INDEX ix_jobs_seed_sequence_repeat ON jobs (seed_sequence, repeat);
CREATE INDEX ix_jobs_state_guild_id_tag_interaction_id ON jobs (state, guild_id, tag, interaction_id);
CREATE INDEX ix_jobs_state_paused_tag_interaction_id ON jobs (state, paused, tag, interaction_id);
CREATE INDEX ix_jobs_state_user_id ON jobs (state, user_id);
CREATE INDEX ix_jobs_holding_token ON jobs (token_expires_at) WHERE interaction_token != '';
CREATE INDEX ix_jobs_user_id_interaction_id ON jobs (user_id, interaction_id);
CREATE TABLE images (
    id {row_id} NOT NULL, job_id VARCHAR(16) NOT NULL, "index" INTEGER NOT NULL, seed BIGINT NOT NULL,
    lane VARCHAR(255) NOT NULL, steps INTEGER NOT NULL, share {double} NOT NULL, tag {double} NOT NULL,
    lead {double} DEFAULT '0' NOT NULL, state VARCHAR(16) NOT NULL, paused BOOLEAN DEFAULT {false} NOT NULL,
    step INTEGER NOT NULL, furthest INTEGER DEFAULT '0' NOT NULL, worker VARCHAR(255),
    fencing_token BIGINT NOT NULL, lease_expires_at {double}, begun BOOLEAN DEFAULT {false} NOT NULL,
    worker_deaths INTEGER NOT NULL, leases_lost INTEGER DEFAULT '0' NOT NULL, artifact VARCHAR(255),
    failure TEXT, trouble TEXT, notes JSON, showing VARCHAR(16) DEFAULT 'show' NOT NULL, ruling VARCHAR(16),
    ruling_reason TEXT DEFAULT '' NOT NULL,
    CONSTRAINT fk_images_job_id FOREIGN KEY (job_id) REFERENCES jobs (id) ON DELETE CASCADE,
    CONSTRAINT pk_images PRIMARY KEY (id),
    CONSTRAINT uq_images_job_id UNIQUE (job_id, "index")
);
CREATE INDEX ix_images_artifact ON images (artifact);
CREATE INDEX ix_images_state_paused_lane_tag_id_steps ON images (state, paused, lane, tag, id, steps);
CREATE INDEX ix_images_state_paused_tag_id ON images (state, paused, tag, id);
CREATE INDEX ix_images_maybe_poison ON images (tag, id) WHERE leases_lost > 0;
CREATE TABLE previews (
    image_id {id} NOT NULL, picture {bytes} NOT NULL,
    CONSTRAINT fk_previews_image_id FOREIGN KEY (image_id) REFERENCES images (id) ON DELETE CASCADE,
    CONSTRAINT pk_previews PRIMARY KEY (image_id)
);
CREATE TABLE files (
    name VARCHAR(255) NOT NULL, bytes BIGINT, state VARCHAR(8) NOT NULL, changed_at {double} NOT NULL,
    used_at {double} NOT NULL, leased_until {double}, failure TEXT,
    CONSTRAINT pk_files PRIMARY KEY (name)
);
CREATE INDEX ix_files_state_used_at ON files (state, used_at);
CREATE TABLE start_pictures (
    job_id VARCHAR(16) NOT NULL, artifact VARCHAR(255) NOT NULL, source VARCHAR(8) DEFAULT 'own' NOT NULL,
    CONSTRAINT fk_start_pictures_job_id FOREIGN KEY (job_id) REFERENCES jobs (id) ON DELETE CASCADE,
    CONSTRAINT pk_start_pictures PRIMARY KEY (job_id, artifact)
);
CREATE INDEX ix_start_pictures_artifact ON start_pictures (artifact);
CREATE TABLE departures (
    guild_id BIGINT NOT NULL, left_at {double} NOT NULL,
    CONSTRAINT pk_departures PRIMARY KEY (guild_id)
);
CREATE TABLE favourites (
    user_id BIGINT NOT NULL, job_id VARCHAR(16) NOT NULL,
    CONSTRAINT fk_favourites_job_id FOREIGN KEY (job_id) REFERENCES jobs (id) ON DELETE CASCADE,
    CONSTRAINT pk_favourites PRIMARY KEY (user_id, job_id)
);
CREATE INDEX ix_favourites_job_id ON favourites (job_id);
CREATE TABLE picture_hashes (
    id {row_id} NOT NULL, job_id VARCHAR(16) NOT NULL, "index" INTEGER NOT NULL, guild_id BIGINT NOT NULL,
    hash BIGINT NOT NULL, band_0 INTEGER NOT NULL, band_1 INTEGER NOT NULL, band_2 INTEGER NOT NULL,
    band_3 INTEGER NOT NULL,
    CONSTRAINT fk_picture_hashes_job_id FOREIGN KEY (job_id) REFERENCES jobs (id) ON DELETE CASCADE,
    CONSTRAINT pk_picture_hashes PRIMARY KEY (id),
    CONSTRAINT uq_picture_hashes_job_id UNIQUE (job_id, "index")
);
CREATE INDEX ix_picture_hashes_guild_id_band_0 ON picture_hashes (guild_id, band_0);
CREATE INDEX ix_picture_hashes_guild_id_band_1 ON picture_hashes (guild_id, band_1);
CREATE INDEX ix_picture_hashes_guild_id_band_2 ON picture_hashes (guild_id, band_2);
CREATE INDEX ix_picture_hashes_guild_id_band_3 ON picture_hashes (guild_id, band_3);
CREATE TABLE blocked_pictures (
    guild_id BIGINT NOT NULL, hash BIGINT NOT NULL, band_0 INTEGER NOT NULL, band_1 INTEGER NOT NULL,
    band_2 INTEGER NOT NULL, band_3 INTEGER NOT NULL, "by" BIGINT NOT NULL, reason VARCHAR(300) NOT NULL,
    at {double} NOT NULL,
    CONSTRAINT pk_blocked_pictures PRIMARY KEY (guild_id, hash)
);
CREATE INDEX ix_blocked_pictures_by ON blocked_pictures ("by");
CREATE INDEX ix_blocked_pictures_guild_id_band_0 ON blocked_pictures (guild_id, band_0);
CREATE INDEX ix_blocked_pictures_guild_id_band_1 ON blocked_pictures (guild_id, band_1);
CREATE INDEX ix_blocked_pictures_guild_id_band_2 ON blocked_pictures (guild_id, band_2);
CREATE INDEX ix_blocked_pictures_guild_id_band_3 ON blocked_pictures (guild_id, band_3);
CREATE TABLE last_tags (
    user_id BIGINT NOT NULL, tag {double} NOT NULL,
    CONSTRAINT pk_last_tags PRIMARY KEY (user_id)
);
CREATE TABLE turns (
    scope VARCHAR(32) NOT NULL,
    CONSTRAINT pk_turns PRIMARY KEY (scope)
);
CREATE TABLE virtual_clock (
    id INTEGER NOT NULL, time {double} NOT NULL,
    CONSTRAINT pk_virtual_clock PRIMARY KEY (id)
);
CREATE TABLE workers (
    name VARCHAR(255) NOT NULL, seats INTEGER NOT NULL, expires_at {double} NOT NULL,
    drained BOOLEAN DEFAULT {false} NOT NULL, version VARCHAR(32) DEFAULT '' NOT NULL,
    ready INTEGER DEFAULT '0' NOT NULL, hourly INTEGER DEFAULT '0' NOT NULL,
    memory BIGINT DEFAULT '0' NOT NULL,
    CONSTRAINT pk_workers PRIMARY KEY (name)
);
CREATE TABLE offered_lanes (
    worker VARCHAR(255) NOT NULL, lane VARCHAR(255) NOT NULL, seats INTEGER DEFAULT '1' NOT NULL,
    CONSTRAINT fk_offered_lanes_worker FOREIGN KEY (worker) REFERENCES workers (name) ON DELETE CASCADE,
    CONSTRAINT pk_offered_lanes PRIMARY KEY (worker, lane)
);
CREATE INDEX ix_offered_lanes_lane ON offered_lanes (lane);
CREATE TABLE published_offers (
    model VARCHAR(255) NOT NULL, offer JSON NOT NULL,
    CONSTRAINT pk_published_offers PRIMARY KEY (model)
);
CREATE TABLE awaited_offers (
    model VARCHAR(255) NOT NULL, until {double} NOT NULL,
    CONSTRAINT pk_awaited_offers PRIMARY KEY (model)
);
CREATE TABLE run_times (
    lane VARCHAR(255) NOT NULL, seconds {double} NOT NULL, seconds_per_step {double} NOT NULL,
    beside_steps {double} DEFAULT '0' NOT NULL,
    CONSTRAINT pk_run_times PRIMARY KEY (lane)
);
CREATE TABLE accelerators (
    name VARCHAR(64) NOT NULL,
    CONSTRAINT pk_accelerators PRIMARY KEY (name)
);
CREATE TABLE class_run_times (
    lane VARCHAR(255) NOT NULL, accelerator VARCHAR(64) NOT NULL, seconds_per_step {double} NOT NULL,
    CONSTRAINT pk_class_run_times PRIMARY KEY (lane, accelerator)
);
CREATE TABLE device_time (
    day VARCHAR(10) NOT NULL, user_id BIGINT NOT NULL, guild_id BIGINT NOT NULL,
    model VARCHAR(255) NOT NULL, accelerator VARCHAR(64) NOT NULL, seconds {double} NOT NULL,
    pictures INTEGER NOT NULL,
    CONSTRAINT pk_device_time PRIMARY KEY (day, user_id, guild_id, model, accelerator)
);
CREATE INDEX ix_device_time_user_id ON device_time (user_id);
CREATE TABLE duties (
    name VARCHAR(32) NOT NULL, holder VARCHAR(255) NOT NULL, expires_at {double} NOT NULL,
    CONSTRAINT pk_duties PRIMARY KEY (name)
);
CREATE TABLE logins (
    hash VARCHAR(64) NOT NULL, kind VARCHAR(8) NOT NULL, user_id BIGINT NOT NULL, made_at {double} NOT NULL,
    seen_at {double} NOT NULL, expires_at {double} NOT NULL,
    CONSTRAINT pk_logins PRIMARY KEY (hash)
);
CREATE INDEX ix_logins_user_id ON logins (user_id);
CREATE INDEX ix_logins_expires_at ON logins (expires_at);
CREATE TABLE processes (
    name VARCHAR(255) NOT NULL, secret VARCHAR(64) NOT NULL, role VARCHAR(16) NOT NULL,
    machine VARCHAR(255) NOT NULL, place TEXT NOT NULL, started_at {double} NOT NULL,
    expires_at {double} NOT NULL,
    CONSTRAINT pk_processes PRIMARY KEY (name)
);
CREATE TABLE preferences (
    scope VARCHAR(8) NOT NULL, owner_id BIGINT NOT NULL, guild_id BIGINT, options JSON NOT NULL,
    CONSTRAINT pk_preferences PRIMARY KEY (scope, owner_id)
);
CREATE INDEX ix_preferences_guild_id ON preferences (guild_id);
CREATE TABLE styles (
    guild_id BIGINT NOT NULL, "key" VARCHAR(255) NOT NULL, name VARCHAR(255) NOT NULL, prompt TEXT NOT NULL,
    negative_prompt TEXT NOT NULL, options JSON NOT NULL, example VARCHAR(255) NOT NULL,
    CONSTRAINT pk_styles PRIMARY KEY (guild_id, "key")
);
CREATE TABLE wildcards (
    guild_id BIGINT NOT NULL, "key" VARCHAR(255) NOT NULL, name VARCHAR(255) NOT NULL,
    entries JSON NOT NULL,
    CONSTRAINT pk_wildcards PRIMARY KEY (guild_id, "key")
);
CREATE TABLE restrictions (
    kind VARCHAR(8) NOT NULL, guild_id BIGINT NOT NULL, channel_id BIGINT NOT NULL, user_id BIGINT NOT NULL,
    until {double}, reason TEXT NOT NULL, "by" BIGINT NOT NULL, at {double} NOT NULL,
    CONSTRAINT pk_restrictions PRIMARY KEY (kind, guild_id, channel_id, user_id)
);
CREATE INDEX ix_restrictions_by ON restrictions ("by");
CREATE INDEX ix_restrictions_until ON restrictions (until);
CREATE INDEX ix_restrictions_user_id ON restrictions (user_id);
CREATE TABLE audit (
    id {row_id} NOT NULL, at {double} NOT NULL, guild_id BIGINT NOT NULL, actor_id BIGINT NOT NULL,
    subject_id BIGINT NOT NULL, act VARCHAR(16) NOT NULL, reason TEXT NOT NULL, "before" JSON, "after" JSON,
    CONSTRAINT pk_audit PRIMARY KEY (id)
);
CREATE INDEX ix_audit_actor_id_guild_id_id ON audit (actor_id, guild_id, id);
CREATE INDEX ix_audit_guild_id_act_id ON audit (guild_id, act, id);
CREATE INDEX ix_audit_guild_id_id ON audit (guild_id, id);
CREATE INDEX ix_audit_subject_id_guild_id_id ON audit (subject_id, guild_id, id);
CREATE TABLE prompt_rules (
    guild_id BIGINT NOT NULL, "key" VARCHAR(255) NOT NULL, name VARCHAR(255) NOT NULL, channel_id BIGINT,
    action VARCHAR(16) NOT NULL, terms JSON NOT NULL, also JSON NOT NULL,
    CONSTRAINT pk_prompt_rules PRIMARY KEY (guild_id, "key")
);
CREATE TABLE automod (
    guild_id BIGINT NOT NULL, applied BOOLEAN NOT NULL,
    CONSTRAINT pk_automod PRIMARY KEY (guild_id)
);
CREATE TABLE policies (
    guild_id BIGINT NOT NULL, scope VARCHAR(8) NOT NULL, owner_id BIGINT NOT NULL, "values" JSON NOT NULL,
    CONSTRAINT pk_policies PRIMARY KEY (guild_id, scope, owner_id)
);
CREATE TABLE server_revisions (
    guild_id BIGINT NOT NULL, revision BIGINT NOT NULL,
    CONSTRAINT pk_server_revisions PRIMARY KEY (guild_id)
);
CREATE TABLE charges (
    job_id VARCHAR(16) NOT NULL, user_id BIGINT NOT NULL, guild_id BIGINT NOT NULL,
    channel_id BIGINT NOT NULL, parent_channel_id BIGINT NOT NULL, at {double} NOT NULL,
    pictures INTEGER NOT NULL, cost {double} NOT NULL,
    CONSTRAINT pk_charges PRIMARY KEY (job_id)
);
CREATE INDEX ix_charges_at ON charges (at);
CREATE INDEX ix_charges_user_id_at ON charges (user_id, at);
CREATE TABLE reviews (
    id {row_id} NOT NULL, kind VARCHAR(8) NOT NULL, guild_id BIGINT NOT NULL, job_id VARCHAR(16),
    user_id BIGINT NOT NULL, rule VARCHAR(255) DEFAULT '' NOT NULL, words TEXT DEFAULT '' NOT NULL,
    request JSON, opened_at {double} NOT NULL, due_at {double} NOT NULL, outcome VARCHAR(16),
    decided_at {double}, decided_by BIGINT, reason TEXT DEFAULT '' NOT NULL, answer VARCHAR(8),
    channel_id BIGINT, message_id BIGINT, trouble VARCHAR(32) DEFAULT '' NOT NULL,
    claimed_by BIGINT, claimed_until {double},
    CONSTRAINT pk_reviews PRIMARY KEY (id)
);
CREATE INDEX ix_reviews_claimed_by ON reviews (claimed_by);
CREATE INDEX ix_reviews_decided_by ON reviews (decided_by);
CREATE INDEX ix_reviews_guild_id_outcome_opened_at ON reviews (guild_id, outcome, opened_at);
CREATE INDEX ix_reviews_job_id ON reviews (job_id);
CREATE INDEX ix_reviews_outcome_due_at ON reviews (outcome, due_at);
CREATE INDEX ix_reviews_user_id_kind_opened_at ON reviews (user_id, kind, opened_at);
CREATE TABLE review_settings (
    guild_id BIGINT NOT NULL, channel_id BIGINT, hours INTEGER NOT NULL, reports INTEGER NOT NULL,
    CONSTRAINT pk_review_settings PRIMARY KEY (guild_id)
);
CREATE TABLE reports (
    job_id VARCHAR(16) NOT NULL, user_id BIGINT NOT NULL, guild_id BIGINT NOT NULL, at {double} NOT NULL,
    reason TEXT NOT NULL,
    CONSTRAINT fk_reports_job_id FOREIGN KEY (job_id) REFERENCES jobs (id) ON DELETE CASCADE,
    CONSTRAINT pk_reports PRIMARY KEY (job_id, user_id)
);
CREATE INDEX ix_reports_guild_id ON reports (guild_id);
CREATE INDEX ix_reports_user_id_at ON reports (user_id, at);
CREATE TABLE sessions (
    id VARCHAR(16) NOT NULL, guild_id BIGINT NOT NULL, channel_id BIGINT NOT NULL, open_channel_id BIGINT,
    host_id BIGINT NOT NULL, locale VARCHAR(16) NOT NULL, "plan" JSON NOT NULL, phase VARCHAR(16) NOT NULL,
    round INTEGER NOT NULL, paused_at {double}, opened_at {double} NOT NULL, collect_until {double},
    closed_at {double}, settled BOOLEAN DEFAULT {false} NOT NULL, board_id BIGINT,
    boards INTEGER DEFAULT '0' NOT NULL, keeper VARCHAR(255), keeper_token BIGINT DEFAULT '0' NOT NULL,
    kept_until {double},
    CONSTRAINT pk_sessions PRIMARY KEY (id),
    CONSTRAINT uq_sessions_open_channel_id UNIQUE (open_channel_id)
);
CREATE INDEX ix_sessions_closed_at ON sessions (closed_at);
CREATE INDEX ix_sessions_guild_id_open_channel_id ON sessions (guild_id, open_channel_id);
CREATE INDEX ix_sessions_host_id ON sessions (host_id);
CREATE INDEX ix_sessions_settled ON sessions (settled);
CREATE TABLE session_timers (
    session_id VARCHAR(16) NOT NULL, kind VARCHAR(16) NOT NULL, due_at {double}, "left" {double},
    CONSTRAINT fk_session_timers_session_id FOREIGN KEY (session_id)
        REFERENCES sessions (id) ON DELETE CASCADE,
    CONSTRAINT pk_session_timers PRIMARY KEY (session_id, kind)
);
CREATE INDEX ix_session_timers_due_at ON session_timers (due_at);
CREATE TABLE session_posts (
    id {row_id} NOT NULL, session_id VARCHAR(16) NOT NULL, kind VARCHAR(16) NOT NULL,
    round INTEGER NOT NULL, page INTEGER NOT NULL, ballot BOOLEAN NOT NULL,
    CONSTRAINT fk_session_posts_session_id FOREIGN KEY (session_id)
        REFERENCES sessions (id) ON DELETE CASCADE,
    CONSTRAINT pk_session_posts PRIMARY KEY (id),
    CONSTRAINT uq_session_posts_session_id UNIQUE (session_id, kind, round, page)
);
CREATE TABLE session_jobs (
    job_id VARCHAR(16) NOT NULL, session_id VARCHAR(16) NOT NULL, round INTEGER NOT NULL,
    user_id BIGINT NOT NULL,
    CONSTRAINT fk_session_jobs_job_id FOREIGN KEY (job_id) REFERENCES jobs (id) ON DELETE CASCADE,
    CONSTRAINT fk_session_jobs_session_id FOREIGN KEY (session_id)
        REFERENCES sessions (id) ON DELETE CASCADE,
    CONSTRAINT pk_session_jobs PRIMARY KEY (job_id)
);
CREATE INDEX ix_session_jobs_session_id_round_user_id ON session_jobs (session_id, round, user_id);
CREATE TABLE session_tags (
    session_id VARCHAR(16) NOT NULL, user_id BIGINT NOT NULL, tag {double} NOT NULL,
    CONSTRAINT fk_session_tags_session_id FOREIGN KEY (session_id)
        REFERENCES sessions (id) ON DELETE CASCADE,
    CONSTRAINT pk_session_tags PRIMARY KEY (session_id, user_id)
);
CREATE INDEX ix_session_tags_user_id ON session_tags (user_id);
CREATE TABLE session_entries (
    session_id VARCHAR(16) NOT NULL, round INTEGER NOT NULL, number INTEGER NOT NULL,
    job_id VARCHAR(16) NOT NULL, "index" INTEGER NOT NULL,
    CONSTRAINT fk_session_entries_session_id FOREIGN KEY (session_id)
        REFERENCES sessions (id) ON DELETE CASCADE,
    CONSTRAINT fk_session_entries_job_id FOREIGN KEY (job_id) REFERENCES jobs (id) ON DELETE CASCADE,
    CONSTRAINT pk_session_entries PRIMARY KEY (session_id, round, number)
);
CREATE INDEX ix_session_entries_job_id ON session_entries (job_id);
CREATE TABLE session_votes (
    session_id VARCHAR(16) NOT NULL, round INTEGER NOT NULL, voter_id BIGINT NOT NULL,
    number INTEGER NOT NULL, job_id VARCHAR(16) NOT NULL,
    CONSTRAINT fk_session_votes_session_id FOREIGN KEY (session_id)
        REFERENCES sessions (id) ON DELETE CASCADE,
    CONSTRAINT fk_session_votes_job_id FOREIGN KEY (job_id) REFERENCES jobs (id) ON DELETE CASCADE,
    CONSTRAINT pk_session_votes PRIMARY KEY (session_id, round, voter_id)
);
CREATE INDEX ix_session_votes_job_id ON session_votes (job_id);
CREATE INDEX ix_session_votes_voter_id ON session_votes (voter_id);
CREATE TABLE outbox (
    id {row_id} NOT NULL CONSTRAINT pk_outbox PRIMARY KEY {unused}, kind VARCHAR(8) NOT NULL,
    job_id VARCHAR(16), review_id {id}, post_id {id},
    front VARCHAR(255), created_at {double} NOT NULL, attempts INTEGER NOT NULL,
    fencing_token BIGINT DEFAULT '0' NOT NULL, next_try_at {double} NOT NULL, outcome TEXT,
    settled_at {double},
    CONSTRAINT fk_outbox_job_id FOREIGN KEY (job_id) REFERENCES jobs (id) ON DELETE CASCADE,
    CONSTRAINT fk_outbox_review_id FOREIGN KEY (review_id) REFERENCES reviews (id) ON DELETE CASCADE,
    CONSTRAINT fk_outbox_post_id FOREIGN KEY (post_id) REFERENCES session_posts (id) ON DELETE CASCADE,
    CONSTRAINT uq_outbox_job_id UNIQUE (job_id),
    CONSTRAINT uq_outbox_review_id UNIQUE (review_id),
    CONSTRAINT uq_outbox_post_id UNIQUE (post_id)
);
CREATE INDEX ix_outbox_kind_outcome_next_try_at ON outbox (kind, outcome, next_try_at);
INSERT INTO virtual_clock (id, time) VALUES (1, 0);
INSERT INTO accelerators (name) VALUES ('cpu'), ('nvidia'), ('tpu');
"""
_WORDS = {
    "sqlite": {
        "row_id": "INTEGER",
        "unused": "AUTOINCREMENT",  # no id of a deleted row is used again
        "id": "INTEGER",
        "double": "DOUBLE",
        "bytes": "BLOB",
        "false": "0",
    },
    "postgresql": {
        "row_id": "BIGSERIAL",
        "unused": "",
        "id": "BIGINT",
        "double": "DOUBLE PRECISION",
        "bytes": "BYTEA",
        "false": "false",
    },
}

_LEAST_SECONDS = 30 * 86_400  # that a row of the audit log is kept
_REFUSAL = "the audit log is append-only"
# The one change: a person's id becomes a negative number.
_AUDIT_ON_SQLITE = (
    f"""
    CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
    WHEN NOT (
        new.id IS old.id AND new.at IS old.at AND new.guild_id IS old.guild_id AND new.act IS old.act
        AND new.reason IS old.reason AND new.before IS old.before AND new.after IS old.after
        AND (new.actor_id IS old.actor_id OR (old.actor_id > 0 AND new.actor_id < 0))
        AND (new.subject_id IS old.subject_id OR (old.subject_id > 0 AND new.subject_id < 0))
    )
    BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END
    """,
    f"""
    CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit
    WHEN old.at > CAST(strftime('%s', 'now') AS REAL) - {_LEAST_SECONDS}
    BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END
    """,
)
_AUDIT_ON_POSTGRESQL = (
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
        ELSIF TG_OP = 'DELETE' THEN
            IF old.at <= extract(epoch FROM clock_timestamp()) - {_LEAST_SECONDS} THEN
                RETURN old;
            END IF;
        END IF;
        RAISE EXCEPTION '{_REFUSAL}' USING ERRCODE = 'integrity_constraint_violation';
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

# A server without a revision says nothing.
_SAID_IN = ("prompt_rules", "policies", "automod")
_ACTS = {"INSERT": ("new",), "UPDATE": ("old", "new"), "DELETE": ("old",)}
_ANY = {"sqlite": "random()", "postgresql": "CAST(random() * 9007199254740992 AS BIGINT)"}
_RENEW = """
    INSERT INTO server_revisions (guild_id, revision) VALUES ({row}.guild_id, {any})
    ON CONFLICT (guild_id) DO UPDATE SET revision = excluded.revision
"""

# Waiting rows are only counted, in the index of their lane. A job stored while a pause starts may lack
# the mark: `unmarked` has its images, found from the pauses. Ids grow with time, so the least is the oldest.
# A model whose offer a front waits for has a row too. A step without a known time takes half a second.
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
UNION ALL
SELECT CAST(awaited_offers.model || ':' AS VARCHAR(255)), CAST(awaited_offers.model AS TEXT),
    accelerators.name, CAST(1 AS DOUBLE PRECISION), CAST(0 AS BIGINT),
    CAST(NULL AS DOUBLE PRECISION), CAST(0 AS BIGINT)
FROM awaited_offers CROSS JOIN accelerators WHERE awaited_offers.until > {now}
"""
_MODEL = {
    "postgresql": "split_part(lanes.lane, ':', 1)",
    "sqlite": "substr(lanes.lane, 1, instr(lanes.lane, ':') - 1)",
}
_NOW = {
    "postgresql": "extract(epoch FROM clock_timestamp())",
    "sqlite": "(julianday('now') - 2440587.5) * 86400.0",
}


def upgrade() -> None:
    """Make every table, trigger and view."""
    dialect = op.get_bind().dialect.name
    statements = _TABLES.format_map(_WORDS[dialect]).rstrip().removesuffix(";").split(";\n")
    statements += (*_AUDIT_ON_SQLITE, *_revisions_on_sqlite()) if dialect == "sqlite" else ()
    statements += (*_AUDIT_ON_POSTGRESQL, *_revisions_on_postgresql()) if dialect == "postgresql" else ()
    for statement in (*statements, _VIEW.format(model=_MODEL[dialect], now=_NOW[dialect])):
        op.execute(sa.text(statement))


def _revisions_on_sqlite() -> tuple[str, ...]:
    """Return a trigger for each table and act."""
    return tuple(
        f"CREATE TRIGGER {table}_{act.lower()}_renews AFTER {act} ON {table} BEGIN "
        + "".join(f"{_RENEW.format(row=row, any=_ANY['sqlite'])};" for row in rows)
        + " END"
        for table in _SAID_IN
        for act, rows in _ACTS.items()
    )


def _revisions_on_postgresql() -> tuple[str, ...]:
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
    return (function, *triggers)
