"""The contract of Again on every database: consecutive seeds that never repeat."""

from __future__ import annotations

import asyncio

import pytest
from recipes import ORIGIN, origin, recipe
from stores import TTL, OpenStore

from bot.domain.errors import UnknownJob, UserMistake
from bot.domain.jobs import Job
from bot.domain.quotas import Caps
from bot.store import Store
from bot.store.queue.seed_sequences import NextOf
from sdjax_engine.request import Lora, Variation

THREE = recipe(seed=7, variants=3, loras=(Lora(name="ink", weight=0.5),), init_image="aa/sent.png")


def seeds(job: Job) -> list[int]:
    return [image.seed for image in job.images]


async def test_the_seeds_of_a_sequence_are_consecutive_whichever_job_is_repeated(store: Store) -> None:
    first = await store.jobs.enqueue(THREE, ORIGIN)
    second = await store.jobs.enqueue(NextOf(job_id=first.id), origin(2, user_id=2))
    third = await store.jobs.enqueue(NextOf(job_id=first.id), origin(3))
    fourth = await store.jobs.enqueue(NextOf(job_id=second.id), origin(4))
    assert [seeds(job) for job in (first, second, third, fourth)] == [
        [7, 8, 9],
        [10, 11, 12],
        [13, 14, 15],
        [16, 17, 18],
    ]
    assert second.recipe == recipe(**{**vars(THREE), "seed": 10})
    assert second.origin.user_id == 2


async def test_pictures_near_another_keep_its_seed_and_never_repeat(store: Store) -> None:
    near = recipe(seed=7, variants=2, variations=(Variation(seed=40, strength=0.15),))
    first = await store.jobs.enqueue(near, ORIGIN)
    second = await store.jobs.enqueue(NextOf(job_id=first.id), origin(2))
    assert [seeds(job) for job in (first, second)] == [[7, 7], [7, 7]]
    varied = [second.recipe.request(index).variations for index in range(2)]
    assert varied == [(Variation(seed=seed, strength=0.15),) for seed in (42, 43)]


async def test_a_repeat_has_the_same_share_of_the_queue_as_a_new_request(store: Store) -> None:
    first = await store.jobs.enqueue(recipe(variants=2), ORIGIN)
    await store.leases.claim("worker", limit=2, ttl=TTL)
    other = await store.jobs.enqueue(recipe(variants=2), origin(2, user_id=2))
    again = await store.jobs.enqueue(NextOf(job_id=first.id), origin(3, user_id=3))
    claims = await store.leases.claim("worker", limit=4, ttl=TTL)
    assert [claim.job_id for claim in claims] == [other.id, again.id] * 2


async def test_seeds_start_again_from_zero_after_the_largest(store: Store) -> None:
    first = await store.jobs.enqueue(recipe(seed=2**32 - 3, variants=2), ORIGIN)
    again = [await store.jobs.enqueue(NextOf(job_id=first.id), origin(number)) for number in (2, 3)]
    assert [seeds(job) for job in again] == [[2**32 - 1, 0], [1, 2]]
    assert seeds(await store.jobs.enqueue(NextOf(job_id=again[0].id), origin(4))) == [3, 4]


async def test_two_seed_sequences_of_one_recipe_are_independent(store: Store) -> None:
    first = await store.jobs.enqueue(THREE, ORIGIN)
    other = await store.jobs.enqueue(THREE, origin(2))
    await store.jobs.enqueue(NextOf(job_id=first.id), origin(3))
    assert seeds(await store.jobs.enqueue(NextOf(job_id=other.id), origin(4))) == [10, 11, 12]


async def test_a_repeated_interaction_makes_one_repeat(store: Store, open_store: OpenStore) -> None:
    first = await store.jobs.enqueue(THREE, ORIGIN)
    other = await open_store()
    asked = await asyncio.gather(
        *(one.jobs.enqueue(NextOf(job_id=first.id), origin(2)) for one in (store, other, store, other))
    )
    assert len({job.id for job in asked}) == 1
    assert seeds(await other.jobs.enqueue(NextOf(job_id=first.id), origin(3))) == [13, 14, 15]


@pytest.mark.parametrize("caps", [Caps(), Caps(waiting=1000)])
async def test_simultaneous_repeats_get_different_seeds(
    store: Store, open_store: OpenStore, caps: Caps
) -> None:
    first = await store.jobs.enqueue(THREE, ORIGIN)
    stores = [store, await open_store(), await open_store()]

    async def ask_and_claim(number: int) -> Job:
        one = stores[number % 3]
        job = await one.jobs.enqueue(
            NextOf(job_id=first.id), origin(number + 2, user_id=number % 4), caps=caps
        )
        await one.leases.claim(f"worker-{number % 3}", limit=2, ttl=60.0)
        return job

    asked = await asyncio.gather(*(ask_and_claim(number) for number in range(20)))
    given = sorted(seed for job in asked for seed in seeds(job))
    assert given == list(range(10, 10 + 60))


async def test_a_refused_repeat_uses_no_seeds(store: Store) -> None:
    first = await store.jobs.enqueue(THREE, ORIGIN)
    with pytest.raises(UserMistake, match="queue_full"):
        await store.jobs.enqueue(NextOf(job_id=first.id), origin(2), caps=Caps(waiting=1))
    assert seeds(await store.jobs.enqueue(NextOf(job_id=first.id), origin(3))) == [10, 11, 12]


async def test_a_deleted_or_unknown_job_is_not_repeated(store: Store) -> None:
    first = await store.jobs.enqueue(recipe(), ORIGIN)
    await store.deliveries.delete_result(first.id, user_id=None)
    for job_id in (first.id, "nothing"):
        with pytest.raises(UnknownJob):
            await store.jobs.enqueue(NextOf(job_id=job_id), origin(3))
