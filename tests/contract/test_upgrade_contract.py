"""What an earlier version stored is read by this one, on every database."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from recipes import ORIGIN, origin, recipe
from stores import TTL, Clock

import bot.store
from bot.jobs import State
from bot.store import Store
from bot.store.database import _create_engine, _parse

FIRST = "0001"
BEFORE_SOURCES = "0018"
JOB = {
    "id": "abcd1234",
    "interaction_id": ORIGIN.interaction_id,
    "interaction_token": ORIGIN.interaction_token,
    "token_expires_at": ORIGIN.token_expires_at,
    "application_id": ORIGIN.application_id,
    "user_id": ORIGIN.user_id,
    "guild_id": ORIGIN.guild_id,
    "channel_id": ORIGIN.channel_id,
    "locale": ORIGIN.locale,
    "private": ORIGIN.private,
    "recipe": (
        '{"prompt": "a boat", "negative_prompt": "", "seed": 7, "variants": 1, "num_inference_steps": 20,'
        ' "guidance_scale": 5.0, "sampler": "ddim", "width": 128, "height": 128, "model": "demo"}'
    ),
    "state": "waiting",
    "created_at": 1.0,
}
IMAGE = {
    "job_id": JOB["id"],
    "index": 0,
    "seed": 7,
    "lane": "demo:128x128:guided",
    "steps": 20,
    "share": 0.3,
    "tag": 0.3,
    "state": "waiting",
    "step": 0,
    "fencing_token": 0,
    "worker_deaths": 0,
}

OLD_JOB = {**JOB, "id": "done5678", "interaction_id": 99, "state": "done", "finished_at": 2.0}
OLD_IMAGE = {**IMAGE, "job_id": OLD_JOB["id"], "state": "done", "artifact": "bb/old.png"}


def upgrade(connection: sa.Connection, version: str) -> None:
    """Bring the tables to those of a version."""
    config = Config()
    config.set_main_option("script_location", str(Path(bot.store.__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, version)


def make_first_tables(connection: sa.Connection) -> None:
    """The tables as the first version had them, with one job that waits in them and one that has ended."""
    upgrade(connection, FIRST)
    for table, row in (("jobs", JOB), ("images", IMAGE), ("jobs", OLD_JOB), ("images", OLD_IMAGE)):
        names = ", ".join(f'"{name}"' for name in row)
        values = ", ".join(f":{name}" for name in row)
        connection.execute(sa.text(f"INSERT INTO {table} ({names}) VALUES ({values})"), row)


def start_both_from_uploads(connection: sa.Connection) -> None:
    """Both jobs start from files that were sent; the second repeats the first."""
    make_first_tables(connection)
    upgrade(connection, BEFORE_SOURCES)
    repeats = "UPDATE jobs SET family = :first, repeat = 1 WHERE id = :second"
    connection.execute(sa.text(repeats), {"first": JOB["id"], "second": OLD_JOB["id"]})
    rows = [{"job": JOB["id"], "file": "cc/own.png"}, {"job": OLD_JOB["id"], "file": "cc/lent.png"}]
    connection.execute(sa.text("INSERT INTO start_pictures (job_id, artifact) VALUES (:job, :file)"), rows)


async def test_what_a_stored_repeat_starts_from_was_sent_with_another_job(
    bare_database_url: str, clock: Clock
) -> None:
    engine = _create_engine(_parse(bare_database_url))
    async with engine.begin() as connection:
        await connection.run_sync(start_both_from_uploads)
    await engine.dispose()

    store = await Store.open(bare_database_url, clock=clock)
    assert await store.erasure.files_sent(ORIGIN.user_id) == {"cc/own.png"}
    await store.close()


async def test_a_job_of_the_first_version_is_painted_by_this_one(
    bare_database_url: str, clock: Clock
) -> None:
    engine = _create_engine(_parse(bare_database_url))
    async with engine.begin() as connection:
        await connection.run_sync(make_first_tables)
    await engine.dispose()

    store = await Store.open(bare_database_url, clock=clock)
    job = await store.jobs.get("abcd1234")
    assert job.recipe == recipe(prompt="a boat")
    later = await store.jobs.enqueue(recipe(), origin(3, user_id=3))  # of a larger tag than the old job's 0.3
    assert [(await store.positions.of(each.id)).place for each in (job, later)] == [1, 2]
    assert job in await store.jobs.history(ORIGIN.user_id, limit=9)
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    await store.jobs.cancel(later.id, user_id=None)
    assert (claim.request, claim.init_image) == (job.recipe.request(0), None)
    done = await store.leases.complete(claim, artifact="aa/aa.png", seconds=2.0)
    assert done.state is State.DONE
    assert (await store.jobs.enqueue_again(job.id, origin(2))).recipe.seed == 8
    assert await store.deliveries.delete_result(job.id, user_id=None) == ["aa/aa.png"]
    assert await store.retention.drop_files(before=2.0, limit=9) == []
    assert await store.retention.drop_files(before=3.0, limit=9) == ["bb/old.png"]
    await store.close()
