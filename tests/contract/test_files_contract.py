"""The rows of files: announced, deleted, wanted again, on every database."""

from __future__ import annotations

from dataclasses import replace

import pytest
from finished_jobs import OTHER, PICTURE, delivered, painted
from recipes import RECIPE, origin, recipe
from stores import TTL, Clock, OpenStore, undelivered

from bot.domain.file_states import DELETION_SECONDS, Painter
from bot.store import Store

LANE = RECIPE.lane


async def test_a_file_is_not_written_while_a_file_of_its_name_is_being_deleted(
    store: Store, clock: Clock
) -> None:
    job = await delivered(store, 1, PICTURE)
    assert await store.deliveries.delete_result(job.id, user_id=None) == [PICTURE]
    assert not await store.files.expect(PICTURE, size=100)
    await store.files.note_deleted([PICTURE])
    assert await store.files.expect(PICTURE, size=100)
    assert await store.retention.kept_bytes() == 100


async def test_a_deletion_whose_process_died_is_finished_by_another_process(
    store: Store, clock: Clock
) -> None:
    for number, name in enumerate((PICTURE, OTHER)):
        job = await delivered(store, number, name)
        await store.deliveries.delete_result(job.id, user_id=None)
    assert await store.retention.unfinished_deletions(limit=9) == []
    clock.now += DELETION_SECONDS
    assert await store.files.expect(PICTURE, size=100)
    assert await store.retention.unfinished_deletions(limit=9) == [OTHER]


async def test_a_late_deletion_does_not_mark_a_rewritten_file_as_deleted(store: Store, clock: Clock) -> None:
    job = await delivered(store, 1, PICTURE)
    await store.deliveries.delete_result(job.id, user_id=None)
    clock.now += DELETION_SECONDS
    assert await store.files.expect(PICTURE, size=7)
    await store.files.note_deleted([PICTURE])
    assert await store.retention.kept_bytes() == 7


async def test_a_file_names_the_image_that_painted_it(store: Store) -> None:
    job = await painted(store, 1, PICTURE)
    assert await store.files.painter(PICTURE) == Painter(job_id=job.id, index=0, recipe=job.recipe)
    assert await store.files.painter(OTHER) is None


async def test_a_wanted_file_is_leased_to_one_worker_of_its_lane(
    store: Store, open_store: OpenStore, clock: Clock
) -> None:
    job = await painted(store, 1, PICTURE)
    lost = await store.files.want([PICTURE])
    assert (lost.since, lost.failure) == (clock.now, None)
    assert await store.files.claim_lost([recipe(width=64).lane], limit=9, ttl=TTL) == []
    (file,) = await store.files.claim_lost([LANE], limit=9, ttl=TTL)
    assert (file.name, file.painter.job_id) == (PICTURE, job.id)
    other = await open_store()
    assert await other.files.claim_lost([LANE], limit=9, ttl=TTL) == []
    clock.now += TTL
    assert len(await other.files.claim_lost([LANE], limit=9, ttl=TTL)) == 1
    assert (await store.files.want([PICTURE])).since == clock.now - TTL


async def test_a_result_is_due_as_soon_as_its_file_is_back(store: Store, clock: Clock) -> None:
    await painted(store, 1, PICTURE)
    (delivery,) = await undelivered(store, limit=9)
    await store.deliveries.retry(delivery, at=clock.now + 300)
    await store.files.want([PICTURE])
    assert await store.files.expect(PICTURE, size=100)
    await store.files.end_wait(PICTURE)
    assert [due.id for due in await undelivered(store, limit=9)] == [delivery.id]
    assert await store.files.claim_lost([LANE], limit=9, ttl=TTL) == []


async def test_a_file_that_cannot_be_repainted_is_not_wanted_twice(store: Store) -> None:
    await painted(store, 1, PICTURE)
    await store.files.want([PICTURE])
    await store.files.end_wait(PICTURE, failure="start_changed")
    assert (await store.files.want([PICTURE])).failure == "start_changed"
    assert await store.files.claim_lost([LANE], limit=9, ttl=TTL) == []
    assert await store.files.expect(PICTURE, size=100)
    assert (await store.files.want([PICTURE])).failure is None


async def test_a_file_takes_the_place_of_a_lost_one_wherever_a_job_names_it(
    store: Store, clock: Clock
) -> None:
    first = await painted(store, 1, PICTURE)
    start = replace(recipe(), init_image=PICTURE, strength=0.5)
    second = await store.jobs.enqueue(start, origin(2))
    (delivery,) = await undelivered(store, limit=9)
    await store.deliveries.retry(delivery, at=clock.now + 300)
    await store.files.want([PICTURE])
    assert await store.files.expect(OTHER, size=100)
    await store.files.replace(PICTURE, OTHER)
    assert await store.files.of_image(first.id, 0) == OTHER
    assert (await store.jobs.get(second.id)).recipe == replace(start, init_image=OTHER)
    assert await store.files.given(second.id) == {"init_image": OTHER}
    assert await store.files.given("no job") is None
    assert await store.files.painter(PICTURE) is None
    assert [due.id for due in await undelivered(store, limit=9)] == [delivery.id]
    assert await store.files.drop_unused({OTHER: clock.now}) == []
    await store.files.replace(PICTURE, "ef/" + "e" * 64 + ".png")
    assert await store.files.of_image(first.id, 0) == OTHER, "the first file that is complete is used"


@pytest.mark.parametrize("elapsed", [0.0, TTL / 2])
async def test_a_duty_has_one_holder_until_it_expires(store: Store, clock: Clock, elapsed: float) -> None:
    assert await store.retention.take_duty("sweep", holder="a", ttl=TTL)
    clock.now += elapsed
    assert not await store.retention.take_duty("sweep", holder="b", ttl=TTL)
    assert await store.retention.take_duty("sweep", holder="a", ttl=TTL)
    clock.now += TTL
    assert await store.retention.take_duty("sweep", holder="b", ttl=TTL)
    assert not await store.retention.take_duty("sweep", holder="a", ttl=TTL)


async def test_a_refused_requests_file_is_deleted_unless_another_job_uses_it(
    store: Store, clock: Clock
) -> None:
    names = [PICTURE, OTHER, "cc/cc.png", "dd/dd.png"]
    expected = {name: await store.files.expect(name, size=10) or 0.0 for name in names}
    await store.jobs.enqueue(recipe(init_image=OTHER), origin(1))
    await painted(store, 2, names[2])
    clock.now += 1
    await store.files.expect(names[3], size=10)
    assert await store.files.drop_unused(expected) == [PICTURE]
    assert await store.files.expect(PICTURE, size=10) is None
