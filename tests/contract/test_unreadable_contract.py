"""Rows of a newer version and damaged rows: they wait, and hide no other row. On every database."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from engines import TINY
from recipes import RECIPE, origin, recipe
from session_steps import opened
from stores import TTL

from bot.domain.errors import UnreadableJob, UserMistake
from bot.domain.holds import Cause, Hold
from bot.domain.jobs import Job, State
from bot.files import Artifacts, Files
from bot.files.erasure import forget
from bot.store import Store
from bot.store.operations.gallery import Search
from bot.store.rows.audit import By
from bot.store.rows.restrictions import Scope
from bot.store.tables.outbox import outbox
from bot.store.tables.queue import audit, images, jobs

ARTIST, HERE, FRONT = 11, 21, "front"
BY = By(actor_id=91, guild_id=HERE)
DAMAGES = {
    "sampler": "UPDATE jobs SET recipe = :newer WHERE id = :id",
    "malformed recipe": "UPDATE jobs SET recipe = :broken WHERE id = :id",
    "recipe that is a list": "UPDATE jobs SET recipe = '[]' WHERE id = :id",
    "state of a job": "UPDATE jobs SET state = 'upscaling' WHERE id = :id",
    "state of an image": "UPDATE images SET state = 'upscaling' WHERE job_id = :id",
    "showing": "UPDATE images SET showing = 'blurred' WHERE job_id = :id",
    "descent": "UPDATE jobs SET parent_id = 'gone', descent = 'dream' WHERE id = :id",
    "notes": 'UPDATE images SET notes = \'{"level": "new"}\' WHERE job_id = :id',
}


async def damage(store: Store, statement: str, **values: object) -> None:
    """Write into a row what this version cannot read."""
    newer = json.dumps(
        {"prompt": "secret", "negative_prompt": "secret", "sampler": "newer", "words": "secret"}
    )
    local = not store.shared.database.has_time
    given = {"newer": newer, "broken": "{secret" if local else '"secret"', **values}
    used = {name: value for name, value in given.items() if f":{name}" in statement}
    if not local:
        statement = statement.replace(":newer", "CAST(:newer AS json)").replace(
            ":broken", "CAST(:broken AS json)"
        )
    async with store.shared.database.write() as connection:
        await connection.execute(sa.text(statement), used)


async def pair(store: Store, how: str, *, painted: bool = False) -> tuple[Job, Job]:
    """Jobs of two persons; the first, in each order the earlier, cannot be read any more."""
    first, second = [
        await store.jobs.enqueue(recipe(seed=seed), origin(seed, user_id=user_id, front=None))
        for seed, user_id in ((1, ARTIST), (2, 12))
    ]
    if painted:
        for claim in await store.leases.claim("worker", limit=2, ttl=TTL):
            await store.leases.complete(claim, artifact=f"aa/{claim.image_id}.png", seconds=1.0)
    await damage(store, DAMAGES[how], id=first.id)
    return first, second


@pytest.fixture(params=DAMAGES)
def how(request: pytest.FixtureRequest) -> str:
    said: str = request.param
    return said


async def test_an_unreadable_request_hides_no_other_and_is_logged_once(
    store: Store, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    _first, second = await pair(store, how)
    with caplog.at_level(logging.ERROR, logger="bot.store.rows.jobs"):
        for _ in range(3):
            assert [job.id for job in await store.jobs.active(limit=1)] == [second.id]
    looked_at = 0 if how == "state of a job" else 1  # it is in none of the states that are listed
    assert len(caplog.records) == looked_at, caplog.text


async def test_an_unreadable_result_waits_for_a_front_that_can_read_it(store: Store, how: str) -> None:
    first, second = await pair(store, how, painted=True)
    assert [each.job.id for each in await store.deliveries.claim(FRONT, limit=1)] == [second.id]
    async with store.shared.database.read() as connection:
        row = (
            await connection.execute(
                sa.text(
                    "SELECT jobs.front, fencing_token, outcome FROM outbox JOIN jobs ON jobs.id = job_id "
                    "WHERE job_id = :id"
                ),
                {"id": first.id},
            )
        ).one()
    assert row == (None, 0, None), "no front has adopted, claimed or settled it"


async def test_however_many_are_unreadable_they_hide_no_readable_one(store: Store) -> None:
    first, second = await pair(store, "sampler", painted=True)
    async with store.shared.database.write() as connection:
        for table, key in ((jobs, "id"), (images, "id"), (outbox, "id")):
            where = table.c.id == first.id if table is jobs else table.c.job_id == first.id
            row = dict((await connection.execute(sa.select(table).where(where))).one()._mapping)
            await connection.execute(sa.insert(table), [copied(row, key, number) for number in range(600)])
        last = sa.update(outbox).where(outbox.c.job_id == second.id)
        await connection.execute(last.values(next_try_at=store.clock(), id=10_000))
    assert [each.job.id for each in await store.deliveries.claim(FRONT, limit=2)] == [second.id]
    assert [job.id for job in await store.jobs.history(ARTIST, limit=1)] == []
    waiting = await store.jobs.enqueue(recipe(seed=3), origin(9_999, user_id=12, front=None))
    async with store.shared.database.write() as connection:
        later = sa.update(images).where(images.c.job_id.not_in([waiting.id, second.id]))
        await connection.execute(later.values(state=State.WAITING, tag=0.0))
    assert [claim.job_id for claim in await store.leases.claim("worker", limit=1, ttl=TTL)] == [waiting.id]


def copied(row: dict[str, Any], key: str, number: int) -> dict[str, Any]:
    """A row of another job."""
    changed = {"id": f"copy{number}" if isinstance(row["id"], str) else 1_000 + number}
    changed |= {"job_id": f"copy{number}"} if "job_id" in row else {"interaction_id": 1_000 + number}
    return {**row, **changed, key: changed["id"]}


async def test_notes_of_a_newer_version_are_left_out(store: Store) -> None:
    job = await store.jobs.enqueue(RECIPE, origin(1))
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    before = await store.leases.complete(claim, artifact="aa/aa.png", seconds=1.0)
    await damage(store, """UPDATE images SET notes = '{"aura": 3}' WHERE job_id = :id""", id=job.id)
    assert await store.jobs.get(job.id) == before


async def test_people_are_told_of_a_request_that_cannot_be_read(store: Store, how: str) -> None:
    first, _ = await pair(store, how)
    with pytest.raises(UnreadableJob, match="newer_request"):
        await store.jobs.get(first.id)


async def test_an_unreadable_request_is_cancelled_by_its_id(store: Store, how: str) -> None:
    first, second = await pair(store, how)
    assert first.id in [*await store.jobs.active_ids(ARTIST), first.id]
    await store.jobs.cancel(first.id, user_id=ARTIST)
    async with store.shared.database.read() as connection:
        states = sa.text("SELECT state FROM images WHERE job_id = :id")
        assert list(await connection.scalars(states, {"id": first.id})) == ["cancelled"]
    assert (await store.jobs.get(second.id)).state is State.WAITING


async def test_everything_of_a_person_is_deleted_though_it_cannot_be_read(
    store: Store, how: str, tmp_path: Path
) -> None:
    _, second = await pair(store, how, painted=True)
    files = Files(store.files, Artifacts(str(tmp_path / "artifacts")))
    assert await forget(store.erasure, files, user_id=ARTIST) == 1
    async with store.shared.database.read() as connection:
        assert list(await connection.scalars(sa.text("SELECT id FROM jobs"))) == [second.id]
        assert len(list(await connection.scalars(sa.text("SELECT id FROM images")))) == 1


async def test_the_words_of_an_unreadable_request_are_deleted_with_its_result(store: Store, how: str) -> None:
    first, _ = await pair(store, how, painted=True)
    await store.deliveries.delete_result(first.id, user_id=ARTIST)
    async with store.shared.database.read() as connection:
        left = await connection.scalar(
            sa.text("SELECT CAST(recipe AS text) FROM jobs WHERE id = :id"), {"id": first.id}
        )
    assert "secret" not in left
    assert RECIPE.prompt not in left


async def test_old_requests_are_forgotten_though_they_cannot_be_read(store: Store, how: str) -> None:
    await pair(store, how, painted=True)
    for delivery in await store.deliveries.claim(FRONT, limit=9):
        await store.deliveries.mark_delivered(delivery, outcome="edited", message_id=1)
    await damage(store, "UPDATE outbox SET outcome = 'edited' WHERE outcome IS NULL")
    forgotten, _files = await store.retention.forget_jobs(before=store.clock() + 1, limit=9)
    assert forgotten == 2


async def test_pages_of_the_gallery_are_full_beside_what_cannot_be_read(store: Store, how: str) -> None:
    first, second = await pair(store, how, painted=True)
    for search in (Search(), Search(guild_id=HERE)):
        assert [job.id for job in (await store.gallery.find(search, limit=1)).jobs] == [second.id]
        assert first.id not in [job.id for job in (await store.gallery.find(search, limit=9)).jobs]


async def test_acts_of_a_newer_version_hide_no_entry_of_the_log(store: Store) -> None:
    await store.moderation.block(Scope(guild_id=HERE, user_id=ARTIST), BY, until=None)
    (oldest,) = await store.moderation.entries(HERE, limit=9)
    async with store.shared.database.write() as connection:
        row = dict((await connection.execute(sa.select(audit))).one()._mapping)
        await connection.execute(
            sa.insert(audit), [{**row, "id": row["id"] + more, "act": "newer"} for more in (1, 2, 3)]
        )
    for person_id in (None, BY.actor_id):
        assert await store.moderation.entries(HERE, person_id=person_id, limit=1) == [oldest]


async def test_searches_pass_over_unreadable_prompts(store: Store) -> None:
    mine = [await store.jobs.enqueue(recipe(seed=seed), origin(seed)) for seed in (1, 2)]
    await damage(store, DAMAGES["malformed recipe"], id=mine[1].id)
    assert [job.id for job in await store.jobs.history(ARTIST, limit=9, search="circle")] == [mine[0].id]
    assert [job.id for job in await store.jobs.history(ARTIST, limit=1)] == [mine[0].id]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE jobs SET recipe = :newer WHERE id = (SELECT job_id FROM reviews WHERE id = :id)",
        "UPDATE reviews SET kind = 'newer' WHERE id = :id",
        "UPDATE reviews SET request = :newer WHERE id = :id",
    ],
    ids=["job", "kind", "request"],
)
async def test_an_unreadable_review_waits_for_a_front_that_can_read_it(store: Store, statement: str) -> None:
    for number in (1, 2):
        job = await store.jobs.enqueue(recipe(seed=number), origin(number), hold=Hold(cause=Cause.MODE))
        (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
        await store.leases.complete(claim, artifact=f"aa/{number}.png", seconds=1.0)
    first, second = await store.reviews.waiting(HERE, limit=9)
    await damage(store, statement, id=first.id)
    assert [each.review.id for each in await store.review_messages.claim(FRONT, limit=1)] == [second.id]
    async with store.shared.database.read() as connection:
        token = sa.text("SELECT fencing_token FROM outbox WHERE review_id = :id")
        assert await connection.scalar(token, {"id": first.id}) == 0
    assert job.id == second.job_id


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE sessions SET phase = 'judging' WHERE id = :id",
        "UPDATE sessions SET plan = :newer WHERE id = :id",
        "UPDATE session_timers SET kind = 'encore' WHERE session_id = :id AND kind = 'session'",
    ],
    ids=["phase", "plan", "timer"],
)
async def test_an_unreadable_session_hides_no_other(store: Store, statement: str) -> None:
    first = await opened(store)
    second = await store.sessions.open(first.plan, BY, channel_id=32, locale="en-US")
    await damage(store, statement, id=first.id)
    assert [kept.id for kept in await store.showing.keep(FRONT, ttl=TTL)] == [second.id]
    assert [kept.id for kept in await store.showing.keep(FRONT, ttl=TTL)] == [second.id]
    with pytest.raises(UserMistake, match="newer_request"):
        await store.sessions.get(first.id)
    await store.sessions.overdue()


async def test_an_unreadable_offer_hides_no_other(store: Store) -> None:
    await store.offers.publish([replace(TINY, model=name) for name in ("demo", "art")])
    newer = f"""REPLACE(CAST(offer AS text), '"{TINY.sampler.value}"', '"newer"')"""
    newer = f"CAST({newer} AS json)" if store.shared.database.has_time else newer
    await damage(store, f"UPDATE published_offers SET offer = {newer} WHERE model = 'demo'")
    assert list(await store.offers.published(["demo", "art"])) == ["art"]
