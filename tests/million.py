"""A store with a million pictures of a year: for tests of what verbs read once the tables have grown.

The same statements fill SQLite and PostgreSQL. Half of the requests are of one server, and each twentieth is
of one person, because the largest server and the busiest person read the most.
"""

from __future__ import annotations

from collections.abc import Iterator

YEAR = 365 * 86_400.0
NOW = 1_800_000_000.0
SERVER, PERSON = 10**18, 10**17
"""The largest server and the busiest person; the others have the numbers after theirs."""
SERVERS, PERSONS = 2_000, 20_000
PICTURES_OF_JOB = 4
ACTIVE = 400
"""The newest jobs: half of them run, half of them wait."""
LANE = "demo:128x128:guided"
RECIPE = (
    '{"model": "demo", "sampler": "ddim", "width": 128, "height": 128, "num_inference_steps": 20,'
    ' "guidance_scale": 2.0, "variants": 4, "seed": 7, "negative_prompt": "blurry",'
    ' "prompt": "a red heart no. '
)


def fill_statements(jobs: int) -> Iterator[str]:
    """Yield the statements that fill empty, migrated tables with so many jobs and what belongs to them."""
    yield _insert(
        "jobs", jobs, _JOB | {"state": f"CASE WHEN i < {jobs - ACTIVE} THEN 'done' ELSE {_OPEN} END"}, jobs
    )
    yield _insert("images", jobs * PICTURES_OF_JOB, _IMAGE, jobs)
    yield (
        "UPDATE images SET state = 'waiting', artifact = NULL, step = 0 WHERE job_id IN"
        " (SELECT id FROM jobs WHERE state = 'waiting')"
    )
    yield (
        "UPDATE images SET state = 'running', artifact = NULL, worker = 'painter', step = 3,"
        f" fencing_token = 1, lease_expires_at = {NOW + 60}"
        " WHERE job_id IN (SELECT id FROM jobs WHERE state = 'running')"
    )
    yield "UPDATE jobs SET started_at = NULL WHERE state = 'waiting'"
    yield "UPDATE jobs SET finished_at = NULL WHERE state IN ('waiting', 'running')"
    yield _insert("files", jobs * PICTURES_OF_JOB, _FILE, jobs)
    yield _insert("outbox", jobs - ACTIVE, _DELIVERY, jobs)
    yield _insert("picture_hashes", jobs, _HASH, jobs)
    for table, (part, columns) in _OTHERS.items():
        yield _insert(table, max(1, int(jobs * part)), columns, jobs)
    reviews = "SELECT id, opened_at, outcome FROM reviews WHERE kind <> 'refused'"
    yield (
        "INSERT INTO outbox (kind, review_id, created_at, attempts, next_try_at, outcome)"
        f" SELECT 'review', id, opened_at, 1, opened_at, outcome FROM ({reviews}) AS kept"
    )
    yield (
        "INSERT INTO outbox (kind, post_id, created_at, attempts, next_try_at, outcome)"
        f" SELECT 'post', id, {NOW} - 9, 1, {NOW} - 9, CASE WHEN id % 1000 = 0 THEN NULL ELSE 'sent' END"
        " FROM session_posts"
    )


def _insert(table: str, rows: int, columns: dict[str, str], jobs: int) -> str:
    age = f"({NOW} - {YEAR} * ({rows} - i) / {rows})"
    names = ", ".join(f'"{name}"' for name in columns)
    values = ", ".join(value.replace("AGE", age).replace("JOBS", str(jobs)) for value in columns.values())
    return (
        f"INSERT INTO {table} ({names}) WITH RECURSIVE numbers(i) AS"
        f" (SELECT CAST(0 AS BIGINT) UNION ALL SELECT i + 1 FROM numbers WHERE i < {rows - 1})"
        f" SELECT {values} FROM numbers"
    )


_SOME = "(i * 7919 % 104729)"  # scattered over the rows
_PERSON = f"CASE WHEN i % 20 = 0 THEN {PERSON} ELSE {PERSON} + {_SOME} % {PERSONS} END"
_SERVER = f"CASE WHEN i % 2 = 0 THEN {SERVER} ELSE {SERVER} + {_SOME} % {SERVERS} END"
_OPEN = "CASE WHEN i % 2 = 0 THEN 'waiting' ELSE 'running' END"
_OF_JOB = f"'j' || (i / {PICTURES_OF_JOB})"
_ANY_JOB = "'j' || (i * 7919 % JOBS)"
_JOB = {
    "id": "'j' || i",
    "interaction_id": f"{SERVER} + i * 4",
    "interaction_token": f"CASE WHEN i >= JOBS - {2 * ACTIVE} THEN 'token' ELSE '' END",
    "token_expires_at": f"CASE WHEN i >= JOBS - {2 * ACTIVE} THEN {NOW + 600} ELSE 0 END",
    "application_id": "1",
    "user_id": _PERSON,
    "user_name": "'somebody'",
    "guild_id": _SERVER,
    "channel_id": f"{_SERVER} + 7",
    "locale": "'en'",
    "private": "(1 = 0)",
    "recipe": f"'{RECIPE}' || i || '\"}}'",
    "created_at": "AGE",
    "started_at": "AGE + 2",
    "finished_at": "AGE + 9",
    "message_id": f"{2 * SERVER} + i",
    "tag": "i / 100.0",
    "front": f"CASE WHEN i >= JOBS - {2 * ACTIVE} THEN 'front' ELSE NULL END",
}
_IMAGE = {
    "job_id": _OF_JOB,
    "index": f"i % {PICTURES_OF_JOB}",
    "seed": "i",
    "lane": f"'{LANE}'",
    "steps": "20",
    "share": "0.3",
    "tag": "i / 400.0",
    "state": "'done'",
    "step": "20",
    "fencing_token": "0",
    "worker_deaths": "0",
    "artifact": "'f' || i || '.png'",
}
_FILE = {
    "name": "'f' || i || '.png'",
    "bytes": "40000",
    "state": "'kept'",
    "changed_at": "AGE",
    "used_at": "AGE",
}
_DELIVERY = {
    "job_id": "'j' || i",
    "kind": "'result'",
    "created_at": "AGE",
    "attempts": "1",
    "next_try_at": "AGE",
    "outcome": "CASE WHEN i % 10000 = 0 THEN NULL ELSE 'edited' END",
    "settled_at": "AGE",
}
_HASH = {
    "job_id": "'j' || i",
    "index": "0",
    "guild_id": _SERVER,
    "hash": "i * 2654435761",
    **{
        f"band_{band}": f"(i * {prime} % 65536)"
        for band, prime in enumerate((7919, 104729, 1299709, 15485863))
    },
}
_REVIEW = {
    "kind": "CASE WHEN i % 2 = 0 THEN 'report' ELSE 'refused' END",
    "guild_id": _SERVER,
    "job_id": _ANY_JOB,
    "user_id": _PERSON,
    "opened_at": "AGE",
    "due_at": "AGE + 86400",
    "outcome": "CASE WHEN i % 1000 = 0 THEN NULL ELSE 'rejected' END",
    "decided_at": "AGE",
    "decided_by": f"{PERSON} + i % 300",
}
_SESSION = {
    "id": "'s' || i",
    "guild_id": _SERVER,
    "channel_id": f"{_SERVER} + 7",
    "host_id": _PERSON,
    "locale": "'en'",
    "plan": '\'{"required": [], "session_seconds": 3600, "quota": 3}\'',
    "phase": "'closed'",
    "round": "2",
    "opened_at": "AGE",
    "closed_at": "AGE + 3600",
    "settled": "(1 = 1)",
}
_OF_SESSION = "'s' || (i / 50)"
_OTHERS = {
    "audit": (
        0.5,
        {
            "at": "AGE",
            "guild_id": _SERVER,
            "actor_id": f"{PERSON} + i % 300",
            "subject_id": f"{PERSON} + {_SOME} % {PERSONS}",
            "act": "'delete'",
            "reason": "'because'",
        },
    ),
    "last_tags": (0.08, {"user_id": f"{PERSON} + i", "tag": "i / 100.0"}),
    "favourites": (0.4, {"user_id": f"{PERSON} + i % {PERSONS}", "job_id": _ANY_JOB}),
    "start_pictures": (0.4, {"job_id": _ANY_JOB, "artifact": "'s' || (i % 1000) || '.png'"}),
    "preferences": (
        0.2,
        {
            "scope": "CASE WHEN i % 2 = 0 THEN 'me' ELSE 'channel' END",
            "owner_id": f"{PERSON} + i",
            "guild_id": f"CASE WHEN i % 2 = 0 THEN NULL ELSE {SERVER} + i / 2 % {SERVERS} END",
            "options": "'{}'",
        },
    ),
    "restrictions": (
        0.2,
        {
            "kind": "'block'",
            "guild_id": f"{SERVER} + i % {SERVERS}",
            "channel_id": "0",
            "user_id": f"{PERSON} + {PERSONS} + i",
            "until": f"CASE WHEN i % 100 = 0 THEN {NOW + 600} ELSE NULL END",
            "reason": "'because'",
            "by": f"{PERSON} + i % 300",
            "at": "AGE",
        },
    ),
    "charges": (
        0.2,
        {
            "job_id": "'c' || i",
            "user_id": _PERSON,
            "guild_id": _SERVER,
            "channel_id": f"{_SERVER} + 7",
            "parent_channel_id": "0",
            "at": f"{NOW} - i % 86400",
            "pictures": "4",
            "cost": "1",
        },
    ),
    "reviews": (0.2, _REVIEW),
    "reports": (
        0.2,
        {"job_id": _ANY_JOB, "user_id": _PERSON, "guild_id": _SERVER, "at": "AGE", "reason": "'because'"},
    ),
    "blocked_pictures": (
        0.2,
        {
            "guild_id": f"{SERVER} + i % {SERVERS}",
            **{name: value for name, value in _HASH.items() if name == "hash" or name.startswith("band")},
            "by": f"{PERSON} + i % 300",
            "reason": "''",
            "at": "AGE",
        },
    ),
    "departures": (0.004, {"guild_id": f"{SERVER} + {SERVERS} + i", "left_at": "AGE"}),
    "device_time": (
        1.0,
        {
            "day": "(2025 + i % 2) || '-' || (10 + i / 20000 % 3) || '-' || (10 + i % 19)",
            "user_id": f"{PERSON} + i % {PERSONS}",
            "guild_id": f"{SERVER} + i % {SERVERS}",
            "model": "'demo'",
            "accelerator": "'cpu'",
            "seconds": "3",
            "pictures": "2",
        },
    ),
    "prompt_rules": (
        0.1,
        {
            "guild_id": f"{SERVER} + i % {SERVERS}",
            "key": "'rule' || i",
            "name": "'rule' || i",
            "action": "'refuse'",
            "terms": "'[\"word\"]'",
            "also": "'[]'",
        },
    ),
    "sessions": (0.04, _SESSION),
    "session_jobs": (
        0.2,
        {"job_id": "'j' || i", "session_id": _OF_SESSION, "round": "1", "user_id": _PERSON},
    ),
    "session_tags": (0.2, {"session_id": _OF_SESSION, "user_id": f"{PERSON} + i", "tag": "1"}),
    "session_entries": (
        0.2,
        {"session_id": _OF_SESSION, "round": "1", "number": "1 + i % 50", "job_id": "'j' || i", "index": "0"},
    ),
    "session_votes": (
        0.2,
        {
            "session_id": _OF_SESSION,
            "round": "1",
            "voter_id": f"{PERSON} + i",
            "number": "1 + i % 50",
            "job_id": "'j' || i",
        },
    ),
    "session_posts": (
        0.2,
        {
            "session_id": _OF_SESSION,
            "kind": "'sheet'",
            "round": "1",
            "page": "i % 50",
            "ballot": "(1 = 0)",
        },
    ),
}
