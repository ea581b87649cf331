"""Single pictures of a grid, as jobs of their own, on every database."""

from __future__ import annotations

import asyncio

import pytest
from recipes import ORIGIN, origin, recipe
from stores import TTL, Clock

from bot.domain.errors import UnknownJob, UserMistake
from bot.domain.jobs import Descent, Job, Notes, Origin, Parent, Showing, State
from bot.domain.levels import Level
from bot.store import Store
from bot.store.queue.copies import PUBLISHED_SECONDS

OTHER = 99  # a person


async def grid(store: Store, *, private: bool = False) -> Job:
    """A finished job of two pictures."""
    asked = origin(1, private=private)
    job = await store.jobs.enqueue(recipe(variants=2, seed=7), asked)
    for claim in await store.leases.claim("worker", limit=2, ttl=TTL):
        job = await store.leases.complete(claim, artifact=f"aa/{claim.image_id}.png", seconds=1.0)
    (delivery,) = await store.deliveries.claim("front", limit=9)
    await store.deliveries.mark_delivered(delivery, outcome="edited", message_id=77)
    return job


def pressed(interaction_id: int, job: Job, index: int) -> Origin:
    parent = Parent(job_id=job.id, descent=Descent.SINGLE, index=index, channel_id=31, message_id=77)
    return origin(interaction_id, user_id=OTHER, parent=parent)


async def test_a_single_shows_the_picture_with_its_seed_and_its_result_is_due_at_once(store: Store) -> None:
    job = await grid(store)
    asked = pressed(2, job, 1)
    single = await store.jobs.copy(job.id, asked, index=1)
    assert (single.state, single.origin, single.origin.parent) == (State.DONE, asked, asked.parent)
    assert (single.recipe.seed, single.recipe.variants) == (8, 1)
    assert [(image.seed, image.artifact) for image in single.images] == [(8, job.images[1].artifact)]
    assert await store.jobs.get(single.id) == single
    assert [one.id for one in await store.jobs.copies(job.id)] == [single.id]
    assert [due.job.id for due in await store.deliveries.claim("front", limit=9)] == [single.id]


async def test_a_single_waits_in_no_queue_and_costs_nothing(store: Store) -> None:
    job = await grid(store)
    await store.jobs.copy(job.id, pressed(2, job, 0), index=0)
    assert await store.leases.claim("worker", limit=9, ttl=TTL) == []
    assert await store.jobs.active() == []
    next_job = await store.jobs.enqueue(recipe(), origin(3, user_id=OTHER))
    assert not next_job.slowed


async def test_a_repeated_interaction_makes_one_single(store: Store) -> None:
    job = await grid(store)
    asked = pressed(2, job, 0)
    made = await asyncio.gather(*(store.jobs.copy(job.id, asked, index=0) for _ in range(4)))
    assert len({single.id for single in made}) == 1
    assert len(await store.jobs.copies(job.id)) == 1


async def test_a_missing_picture_and_a_deleted_job_have_no_single(store: Store) -> None:
    job = await grid(store)
    with pytest.raises(UserMistake, match="no_picture"):
        await store.jobs.copy(job.id, pressed(2, job, 5), index=5)
    await store.deliveries.delete_result(job.id, user_id=None)
    for job_id in (job.id, "nothing"):
        with pytest.raises(UnknownJob):
            await store.jobs.copy(job_id, pressed(3, job, 0), index=0)


async def test_the_file_is_kept_while_either_job_shows_it(store: Store) -> None:
    job = await grid(store)
    name = job.images[0].artifact
    single = await store.jobs.copy(job.id, pressed(2, job, 0), index=0)
    assert name not in await store.deliveries.delete_result(job.id, user_id=ORIGIN.user_id)
    assert await store.deliveries.delete_result(single.id, user_id=OTHER) == [name]
    assert await store.jobs.copies(job.id) == []


async def test_singles_are_in_no_history_but_in_the_export(store: Store) -> None:
    job = await grid(store)
    single = await store.jobs.copy(job.id, pressed(2, job, 0), index=0)
    assert await store.jobs.history(OTHER, limit=9) == []
    assert [one.id for one in await store.jobs.history(OTHER, limit=9, copies=True)] == [single.id]


async def test_a_copy_of_all_pictures_keeps_their_places_and_seeds(store: Store) -> None:
    job = await grid(store, private=True)
    asked = origin(2, parent=Parent(job_id=job.id, descent=Descent.PUBLICATION))
    copy = await store.jobs.copy(job.id, asked)
    assert copy.recipe == job.recipe
    assert not copy.origin.private
    shown = [(image.index, image.seed, image.artifact) for image in job.images]
    assert [(image.index, image.seed, image.artifact) for image in copy.images] == shown
    assert [one.id for one in await store.jobs.history(ORIGIN.user_id, limit=9)] == [job.id]
    assert [one.id for one in await store.jobs.copies(job.id)] == [copy.id]


async def test_a_result_is_published_once_in_a_channel_until_that_is_deleted(store: Store) -> None:
    job = await grid(store, private=True)
    parent = Parent(job_id=job.id, descent=Descent.PUBLICATION)
    copy = await store.jobs.copy(job.id, origin(2, parent=parent))
    assert (await store.jobs.copy(job.id, origin(2, parent=parent))).id == copy.id  # a retry
    with pytest.raises(UserMistake) as refused:
        await store.jobs.copy(job.id, origin(3, parent=parent))
    assert refused.value.message_id == "publish_again"
    elsewhere = await store.jobs.copy(job.id, origin(4, parent=parent, channel_id=9))
    await store.deliveries.delete_result(copy.id, user_id=None)
    again = await store.jobs.copy(job.id, origin(5, parent=parent))
    assert {one.id for one in await store.jobs.copies(job.id)} == {elsewhere.id, again.id}


async def test_a_result_whose_publication_did_not_arrive_or_is_old_is_published_again(
    store: Store, clock: Clock
) -> None:
    job = await grid(store, private=True)
    parent = Parent(job_id=job.id, descent=Descent.PUBLICATION)
    directly = {"outcome": "sent_directly", "message_id": 4, "channel_id": 7}
    for number, ended in enumerate(({"outcome": "no_permission"}, directly), start=8):
        await store.jobs.copy(job.id, origin(number, parent=parent))
        for delivery in await store.deliveries.claim("front", limit=9):
            await store.deliveries.mark_delivered(delivery, **ended)
    await store.jobs.copy(job.id, origin(3, parent=parent))
    for delivery in await store.deliveries.claim("front", limit=9):
        await store.deliveries.mark_delivered(delivery, outcome="delivered", message_id=5)
    with pytest.raises(UserMistake):
        await store.jobs.copy(job.id, origin(4, parent=parent))
    clock.now += PUBLISHED_SECONDS
    assert await store.jobs.copy(job.id, origin(4, parent=parent))


async def test_a_flagged_picture_is_published_elsewhere_as_the_policy_there_says(store: Store) -> None:
    await store.jobs.enqueue(recipe(variants=2), origin(1, guild_id=5, private=True))
    for claim, level in zip(
        await store.leases.claim("worker", limit=2, ttl=TTL), (Level.NONE, Level.EXPLICIT), strict=True
    ):
        name = f"aa/{claim.image_id}.png"
        job = await store.leases.complete(claim, artifact=name, seconds=1.0, notes=Notes(level=level))
    parent = Parent(job_id=job.id, descent=Descent.PUBLICATION)
    mixed, strict = ["show", "spoiler", "withhold"], ["withhold"] * 3
    policies: dict[int, dict[str, list[str]]]
    policies = {5: {}, 6: {}, 7: {"flagged": mixed}, 8: {"flagged": strict}}
    shown: dict[int, list[Showing]] = {}
    for guild_id, policy in policies.items():
        where = {"guild_id": guild_id, "channel_id": job.origin.channel_id if guild_id == 5 else guild_id}
        there = origin(10 + guild_id, **where, parent=parent, policy=policy)
        copy = await store.jobs.copy(job.id, there)
        shown[guild_id] = [image.showing for image in copy.images]
    assert shown == {
        5: [Showing.SHOW, Showing.SHOW],
        6: [Showing.SHOW, Showing.HOLD],
        7: [Showing.SHOW, Showing.SPOILER],
        8: [Showing.SHOW],
    }
