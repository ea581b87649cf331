"""Favourites of persons, on every database."""

from __future__ import annotations

import asyncio

import pytest
from finished_jobs import PICTURE, delivered
from recipes import RECIPE, origin, recipe
from stores import Clock, OpenStore

from bot.domain.errors import UnknownJob, UserMistake
from bot.store import Store
from bot.store.people import favourites

ME, OTHER = 11, 12
DAY = 86_400.0


async def test_any_job_can_be_a_favourite_once_until_it_is_removed(store: Store) -> None:
    job = await store.jobs.enqueue(RECIPE, origin(1, user_id=OTHER))
    for _ in range(2):
        await store.favourites.add(ME, job.id)
    assert await store.favourites.of(ME) == [job.id]
    assert await store.favourites.of(OTHER) == []
    assert await store.favourites.remove(ME, job.id)
    assert not await store.favourites.remove(ME, job.id)
    assert await store.favourites.of(ME) == []


async def test_the_history_of_favourites_has_pages_and_search(store: Store) -> None:
    jobs = [
        await store.jobs.enqueue(recipe(prompt=f"boat {number}"), origin(number, user_id=OTHER))
        for number in range(1, 6)
    ]
    for job in jobs[:4]:
        await store.favourites.add(ME, job.id)
    await store.jobs.enqueue(recipe(prompt="boat of mine"), origin(9, user_id=ME))
    newest = await store.jobs.history(ME, limit=2, starred=True)
    assert [job.recipe.prompt for job in newest] == ["boat 4", "boat 3"]
    older = await store.jobs.history(ME, limit=2, starred=True, older_than=3)
    assert [job.recipe.prompt for job in older] == ["boat 2", "boat 1"]
    found = await store.jobs.history(ME, limit=9, starred=True, search="2 boat")
    assert [job.id for job in found] == [jobs[1].id]


async def test_no_person_has_more_favourites_than_the_limit(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(favourites, "MOST", 2)
    jobs = [await store.jobs.enqueue(RECIPE, origin(number)) for number in range(1, 4)]
    for job in jobs[:2]:
        await store.favourites.add(ME, job.id)
    with pytest.raises(UserMistake, match=r"favourites_full.*2"):
        await store.favourites.add(ME, jobs[2].id)
    await store.favourites.add(ME, jobs[0].id)
    assert set(await store.favourites.of(ME)) == {job.id for job in jobs[:2]}
    await store.favourites.add(OTHER, jobs[2].id)


async def test_a_favourite_is_not_deleted_by_age_but_with_the_erasure_of_its_job(
    store: Store, clock: Clock
) -> None:
    job = await delivered(store, 1, PICTURE)
    await store.favourites.add(OTHER, job.id)
    clock.now += 400 * DAY
    assert await store.retention.forget_jobs(before=clock.now, limit=9) == (0, [])
    assert await store.favourites.remove(OTHER, job.id)
    assert await store.retention.forget_jobs(before=clock.now, limit=9) == (1, [PICTURE])
    with pytest.raises(UnknownJob):
        await store.favourites.add(OTHER, job.id)


async def test_erasure_of_a_job_or_of_a_person_leaves_no_favourite(store: Store) -> None:
    job, kept = [await store.jobs.enqueue(RECIPE, origin(number)) for number in (1, 2)]
    for one in (job, kept):
        await store.favourites.add(OTHER, one.id)
    await store.erasure.erase([job.id])
    assert await store.favourites.of(OTHER) == [kept.id]
    await store.erasure.erase_preferences(user_id=OTHER)
    assert await store.favourites.of(OTHER) == []


async def test_the_job_of_a_message_is_found(store: Store) -> None:
    job = await delivered(store, 1, PICTURE)
    assert await store.jobs.shown_by(9) == job.id
    assert await store.jobs.shown_by(10) is None


async def test_a_star_is_taken_from_one_persons_one_job(store: Store) -> None:
    jobs = [await store.jobs.enqueue(RECIPE, origin(number)) for number in (1, 2)]
    for job in jobs:
        await store.favourites.add(ME, job.id)
    await store.favourites.add(OTHER, jobs[0].id)
    assert not await store.favourites.remove(OTHER, jobs[1].id)
    assert await store.favourites.remove(ME, jobs[0].id)
    assert await store.favourites.of(ME) == [jobs[1].id]
    assert await store.favourites.of(OTHER) == [jobs[0].id]


async def test_a_deleted_result_is_nobodys_new_favourite(store: Store) -> None:
    job = await delivered(store, 1, PICTURE)
    await store.deliveries.delete_result(job.id, user_id=None)
    with pytest.raises(UnknownJob) as refused:
        await store.favourites.add(ME, job.id)
    assert refused.value.details == {"job": job.id}


async def test_stars_that_are_given_at_once_do_not_exceed_the_limit(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(favourites, "MOST", 3)
    stores = [await open_store(), await open_store()]
    jobs = [await stores[0].jobs.enqueue(RECIPE, origin(number)) for number in range(1, 9)]
    await asyncio.gather(
        *(stores[number % 2].favourites.add(ME, job.id) for number, job in enumerate(jobs)),
        return_exceptions=True,
    )
    assert len(await stores[0].favourites.of(ME)) == 3
