"""Which files and rows a sweep deletes and which it must keep, on every database."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from finished_jobs import OTHER, PICTURE, delivered, painted
from recipes import RECIPE, origin, recipe
from stores import TTL, Clock, undelivered

from bot.domain.errors import UnknownJob
from bot.domain.holds import Cause, Hold, Outcome
from bot.domain.jobs import Descent, Parent
from bot.store import Store
from bot.store.rows.audit import By
from bot.store.tables.queue import last_tags

DAY = 86_400.0


async def dropped(store: Store, clock: Clock, *, most_bytes: int | None = None) -> list[str]:
    """Drop the files from before now, as a sweep does; return their names."""
    return list(await store.retention.drop_files(before=clock.now, limit=9, most_bytes=most_bytes))


async def test_the_oldest_files_are_dropped_first_and_only_the_excess(store: Store, clock: Clock) -> None:
    for number, name in enumerate(("aa/1.png", "aa/2.png", "aa/3.png", "aa/4.png")):
        await delivered(store, number, name)
        clock.now += DAY
    assert await store.retention.kept_bytes() == 400
    assert await dropped(store, clock, most_bytes=150) == ["aa/1.png", "aa/2.png"]
    assert await store.retention.kept_bytes() == 200
    assert await store.retention.drop_files(before=clock.now - DAY, limit=9) == {"aa/3.png": 100}


async def test_expired_tokens_are_deleted(store: Store, clock: Clock) -> None:
    ends = {1: clock.now - 1, 2: clock.now + 1}
    jobs = [
        await store.jobs.enqueue(RECIPE, origin(number, token_expires_at=end)) for number, end in ends.items()
    ]
    assert await store.retention.forget_tokens(before=clock.now, limit=9) == 1
    assert await store.retention.forget_tokens(before=clock.now, limit=9) == 0
    held = [(await store.jobs.get(job.id)).origin.interaction_token for job in jobs]
    assert held == ["", jobs[1].origin.interaction_token]


async def test_an_undelivered_result_keeps_its_file(store: Store, clock: Clock) -> None:
    await painted(store, 1, PICTURE)
    clock.now += DAY
    assert await dropped(store, clock) == []
    (delivery,) = await undelivered(store, limit=9)
    await store.deliveries.mark_delivered(delivery, outcome="edited", message_id=9)
    assert await dropped(store, clock) == [PICTURE]


async def test_the_start_picture_of_a_waiting_job_is_kept_and_counts_as_used_now(
    store: Store, clock: Clock
) -> None:
    await delivered(store, 1, PICTURE)
    clock.now += DAY
    job = await store.jobs.enqueue(recipe(init_image=PICTURE), origin(2))
    clock.now += 1
    assert await dropped(store, clock) == []
    await store.jobs.cancel(job.id, user_id=None)
    assert await store.retention.drop_files(before=clock.now - 1, limit=9) == {}
    assert await dropped(store, clock) == [PICTURE]


async def test_what_was_given_for_held_pictures_is_kept_until_moderators_decide(
    store: Store, clock: Clock
) -> None:
    await store.files.expect(PICTURE, size=100)
    await store.jobs.enqueue(recipe(init_image=PICTURE), origin(1, guild_id=7), hold=Hold(cause=Cause.MODE))
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    await store.leases.complete(claim, artifact="cc/done.png", seconds=1.0)
    clock.now += DAY
    assert await dropped(store, clock) == []
    (review,) = await store.reviews.waiting(7, limit=9)
    await store.reviews.decide(review.id, Outcome.SHOWN, By(actor_id=3, guild_id=7))
    assert await dropped(store, clock) == [PICTURE]


async def test_one_finished_picture_of_a_job_that_goes_on_is_kept(store: Store, clock: Clock) -> None:
    await store.jobs.enqueue(recipe(variants=2), origin(1))
    first, _ = await store.leases.claim("worker", limit=2, ttl=TTL)
    await store.files.expect(PICTURE, size=100)
    await store.leases.complete(first, artifact=PICTURE, seconds=1.0)
    clock.now += DAY
    assert await dropped(store, clock) == []


async def test_a_dropped_file_can_be_repainted_and_counts_as_new(store: Store, clock: Clock) -> None:
    job = await delivered(store, 1, PICTURE)
    clock.now += DAY
    await store.files.note_deleted(await dropped(store, clock))
    assert await store.retention.kept_bytes() == 0
    assert (await store.jobs.get(job.id)).images[0].artifact == PICTURE
    assert await store.files.painter(PICTURE) is not None
    assert await store.files.expect(PICTURE, size=100)
    assert await dropped(store, clock) == []


async def test_only_files_that_no_job_names_are_orphans(store: Store, clock: Clock) -> None:
    await delivered(store, 1, PICTURE)
    await store.jobs.enqueue(recipe(init_image=OTHER), origin(2))
    for name in (OTHER, "cc/refused.png"):
        await store.files.expect(name, size=50)
    assert await store.retention.drop_orphans(after=0.0, before=clock.now, limit=9) == []
    clock.now += 1
    assert await store.retention.drop_orphans(after=0.0, before=clock.now, limit=9) == ["cc/refused.png"]
    await store.files.note_deleted(["cc/refused.png"])
    assert await store.retention.kept_bytes() == 150


async def test_the_oldest_orphans_go_first(store: Store, clock: Clock) -> None:
    for name in ("zz/1.png", "aa/2.png", "mm/3.png"):
        await store.files.expect(name, size=50)
        clock.now += 1
    assert await store.retention.drop_orphans(after=0.0, before=clock.now, limit=1) == ["zz/1.png"]


async def test_old_jobs_are_forgotten_with_the_files_that_only_they_name(store: Store, clock: Clock) -> None:
    old = await delivered(store, 1, PICTURE)
    clock.now += DAY
    young = await delivered(store, 2, OTHER)
    assert await store.retention.forget_jobs(before=clock.now, limit=9) == (1, [PICTURE])
    with pytest.raises(UnknownJob):
        await store.jobs.get(old.id)
    assert (await store.jobs.get(young.id)).images == young.images


async def test_an_undelivered_job_is_not_deleted_by_age(store: Store, clock: Clock) -> None:
    await delivered(store, 3, OTHER)
    await painted(store, 1, PICTURE)
    await store.jobs.enqueue(RECIPE, origin(2))
    clock.now += DAY
    assert await store.retention.forget_jobs(before=clock.now, limit=9) == (1, [OTHER])
    assert await store.retention.forget_jobs(before=clock.now, limit=9) == (0, [])


async def test_a_job_is_not_deleted_by_age_while_another_starts_from_its_picture(
    store: Store, clock: Clock
) -> None:
    await delivered(store, 1, PICTURE)
    clock.now += DAY
    await delivered(store, 2, OTHER, start=PICTURE)
    assert await store.retention.forget_jobs(before=clock.now, limit=9) == (0, [])
    clock.now += DAY
    assert await store.retention.forget_jobs(before=clock.now, limit=9) == (1, [OTHER])
    assert await store.retention.forget_jobs(before=clock.now, limit=9) == (1, [PICTURE])


async def test_a_job_is_not_deleted_by_age_while_there_is_a_copy_of_it(store: Store, clock: Clock) -> None:
    job = await delivered(store, 1, PICTURE)
    clock.now += DAY
    single = Parent(job_id=job.id, descent=Descent.SINGLE, index=0)
    copy = await store.jobs.copy(job.id, origin(2, user_id=12, parent=single), index=0)
    assert await store.retention.forget_jobs(before=clock.now, limit=9) == (0, [])
    await store.deliveries.delete_result(copy.id, user_id=12)
    assert await store.retention.forget_jobs(before=clock.now, limit=9) == (1, [PICTURE])


async def test_the_place_in_the_fair_order_of_a_person_without_jobs_is_deleted(
    store: Store, clock: Clock
) -> None:
    await delivered(store, 1, PICTURE)
    await store.jobs.enqueue(RECIPE, origin(2, user_id=12))
    assert await store.retention.forget_idle(after=0, limit=9) is None
    clock.now += DAY
    await store.retention.forget_jobs(before=clock.now, limit=9)
    assert await store.retention.forget_idle(after=11, limit=1) == 12
    assert await store.retention.forget_idle(after=0, limit=1) == 11
    async with store.shared.database.read() as connection:
        assert list(await connection.scalars(sa.select(last_tags.c.user_id))) == [12]


async def test_found_files_are_recorded_once_and_count_as_used_now(store: Store, clock: Clock) -> None:
    await delivered(store, 1, PICTURE)
    await store.retention.note_files({PICTURE: 5, OTHER: 70})
    assert await store.retention.kept_bytes() == 170
    clock.now += DAY
    await store.retention.note_files({OTHER: 70})
    assert await store.retention.drop_orphans(after=0.0, before=clock.now, limit=9) == [OTHER]
