"""Pictures held for review, on every database."""

from __future__ import annotations

import asyncio

import pytest
from recipes import origin, recipe
from stores import TTL, Clock, OpenStore

from bot.domain.errors import UnknownJob, UserMistake
from bot.domain.holds import Cause, Hold, Outcome, Ruling
from bot.domain.jobs import Delivery, Descent, Job, Parent, Showing
from bot.store import Store
from bot.store.queue.seed_sequences import NextOf
from bot.store.rows.audit import Act, By
from bot.store.rows.reviews import Review

MINA, HERE = 91, 21
BY = By(actor_id=MINA, guild_id=HERE, reason="not here")
REPORTED = Hold(cause=Cause.REPORTS)


async def painted(store: Store, number: int = 1, *, showing: Showing = Showing.HOLD) -> Job:
    """A finished job of two pictures."""
    job = await store.jobs.enqueue(recipe(variants=2), origin(number, guild_id=HERE))
    for claim in await store.leases.claim("worker", limit=2, ttl=TTL):
        artifact = f"aa/{claim.image_id}.png"
        job = await store.leases.complete(claim, artifact=artifact, seconds=1.0, showing=showing)
    return job


async def due(store: Store, front: str = "front") -> list[Delivery]:
    return await store.deliveries.claim(front, limit=9)


async def sent(store: Store) -> None:
    for delivery in await due(store):
        await store.deliveries.mark_delivered(delivery, outcome="edited", message_id=77)


async def decide(store: Store, job: Job, outcome: Outcome) -> Job:
    (review,) = [each for each in await store.reviews.waiting(HERE, limit=9) if each.job_id == job.id]
    await store.reviews.decide(review.id, outcome, BY)
    return await store.jobs.get(job.id)


def kinds(job: Job) -> list[Showing]:
    return [image.showing for image in job.images]


async def test_a_held_picture_is_named_to_no_reader_of_pictures_and_has_no_copy(store: Store) -> None:
    job = await painted(store)
    assert kinds(job) == [Showing.HOLD] * 2
    assert [image.artifact for image in job.images] == [None, None]
    assert all(image.held for image in job.images)
    with pytest.raises(UserMistake, match="picture_held"):
        await store.jobs.copy(job.id, origin(2), index=0)


@pytest.mark.parametrize(
    ("outcome", "showing", "act"),
    [
        (Outcome.SHOWN, Showing.SHOW, Act.APPROVE),
        (Outcome.SPOILER, Showing.SPOILER, Act.COVER),
        (Outcome.REJECTED, Showing.WITHHOLD, Act.REJECT),
    ],
)
async def test_a_decision_is_shown_logged_and_delivered_once_more(
    store: Store, outcome: Outcome, showing: Showing, act: Act
) -> None:
    job = await painted(store)
    await sent(store)
    decided = await decide(store, job, outcome)
    assert kinds(decided) == [showing] * 2
    assert bool(decided.images[0].artifact) is (outcome is not Outcome.REJECTED)
    assert decided.ruling == Ruling(outcome=outcome, reason="not here")
    (entry,) = await store.moderation.entries(HERE, limit=9)
    assert (entry.act, entry.actor_id, entry.subject_id) == (act, MINA, job.origin.user_id)
    (delivery,) = await due(store)
    assert (delivery.job, delivery.tried_before) == (await store.jobs.get(job.id), True)
    assert (delivery.job.message_id, delivery.job.origin.front) == (77, "front")
    await store.deliveries.mark_delivered(delivery, outcome="edited", message_id=77)
    assert await due(store) == []


async def test_of_decisions_at_once_the_first_stands_and_one_is_logged(
    store: Store, open_store: OpenStore
) -> None:
    job = await painted(store)
    await sent(store)
    stores = [store, await open_store()]
    (review,) = await store.reviews.waiting(HERE, limit=9)
    acts = [stores[n % 2].reviews.decide(review.id, list(Outcome)[n % 3], BY) for n in range(6)]
    done = await asyncio.gather(*acts, return_exceptions=True)
    (won,) = [each for each in done if isinstance(each, Review)]
    ruling = (await store.jobs.get(job.id)).ruling
    assert ruling is not None
    assert (ruling.outcome, won.decided_by) == (won.outcome, MINA)
    others = [each.message_id for each in done if isinstance(each, UserMistake)]
    assert others == ["review_over"] * 5
    assert len(await store.moderation.entries(HERE, limit=9)) == 1
    assert len(await due(store)) == 1


async def test_an_attempt_to_show_the_state_before_a_decision_settles_nothing(store: Store) -> None:
    job = await painted(store)
    (old,) = await due(store)
    await decide(store, job, Outcome.SHOWN)
    assert await store.deliveries.mark_delivered(old, outcome="sent", message_id=78)
    await store.deliveries.retry(old, at=1e12)
    (new,) = await due(store)
    assert (new.attempts, new.tried_before, new.job.message_id) == (0, True, 78)


async def test_a_decided_result_goes_to_any_front_as_its_own_may_be_gone(store: Store) -> None:
    job = await painted(store)
    await sent(store)
    assert (await store.jobs.get(job.id)).origin.front == "front"
    await decide(store, job, Outcome.SHOWN)
    assert [each.job.id for each in await due(store, "another")] == [job.id]


async def test_pictures_are_hidden_in_copies_too_and_shown_again_in_all(store: Store) -> None:
    job = await painted(store, showing=Showing.SHOW)
    parent = Parent(job_id=job.id, descent=Descent.SINGLE, index=0)
    single = await store.jobs.copy(job.id, origin(2, guild_id=HERE, parent=parent), index=0)
    await sent(store)
    held = await store.reviews.hold(single.id, REPORTED, BY)
    assert (kinds(held), held.hold) == ([Showing.HOLD], REPORTED)
    grid = await store.jobs.get(job.id)
    assert (kinds(grid), grid.hold) == ([Showing.HOLD, Showing.SHOW], REPORTED)
    assert {each.job.id for each in await due(store)} == {job.id, single.id}
    await decide(store, single, Outcome.SHOWN)
    assert kinds(await store.jobs.get(single.id)) == [Showing.SHOW]
    assert kinds(await store.jobs.get(job.id)) == [Showing.SHOW] * 2


async def test_a_deleted_result_is_neither_held_nor_decided(store: Store) -> None:
    job, shown = await painted(store), await painted(store, 2, showing=Showing.SHOW)
    await sent(store)
    for each in (job, shown):
        await store.deliveries.delete_result(each.id, user_id=None)
    assert await store.reviews.waiting(HERE, limit=9) == []
    with pytest.raises(UnknownJob):
        await store.reviews.hold(shown.id, REPORTED, BY)
    assert await due(store) == []


async def test_neither_files_nor_jobs_go_by_age_while_pictures_are_held(store: Store, clock: Clock) -> None:
    job = await painted(store)
    names = [image.held for image in job.images]
    for name in names:
        assert name is not None
        await store.files.expect(name, size=9)
    await sent(store)
    clock.now += 1e6
    assert await store.retention.drop_files(before=clock.now, limit=9) == {}
    assert await store.retention.forget_jobs(before=clock.now, limit=9) == (0, [])
    await decide(store, job, Outcome.REJECTED)
    await sent(store)
    assert sorted(await store.retention.drop_files(before=clock.now, limit=9)) == sorted(names)
    assert (await store.retention.forget_jobs(before=clock.now + 1, limit=9))[0] == 1


async def test_a_job_with_a_hold_is_painted_and_held_and_its_withheld_pictures_stay_withheld(
    store: Store,
) -> None:
    rule = Hold(cause=Cause.RULE, rule="knives")
    job = await store.jobs.enqueue(recipe(variants=2), origin(1, guild_id=HERE), hold=rule)
    assert job.hold == rule
    first, second = await store.leases.claim("worker", limit=2, ttl=TTL)
    await store.leases.complete(first, artifact="aa/1.png", seconds=1.0)
    job = await store.leases.complete(second, artifact=None, seconds=1.0, showing=Showing.WITHHOLD)
    assert kinds(job) == [Showing.HOLD, Showing.WITHHOLD]
    job = await decide(store, job, Outcome.SHOWN)
    assert kinds(job) == [Showing.SHOW, Showing.WITHHOLD]
    again = await store.jobs.enqueue(NextOf(job_id=job.id), origin(2, guild_id=HERE))
    assert (again.hold, again.ruling) == (None, None)


async def test_a_copy_may_be_held_where_its_source_is_shown(store: Store) -> None:
    job = await painted(store, showing=Showing.SHOW)
    mode = Hold(cause=Cause.MODE)
    parent = Parent(job_id=job.id, descent=Descent.PUBLICATION)
    copy = await store.jobs.copy(job.id, origin(2, guild_id=HERE, parent=parent), hold=mode)
    assert (kinds(copy), copy.hold) == ([Showing.HOLD] * 2, mode)
    assert kinds(await store.jobs.get(job.id)) == [Showing.SHOW] * 2
    await decide(store, copy, Outcome.REJECTED)
    assert kinds(await store.jobs.get(job.id)) == [Showing.SHOW] * 2


async def test_moderators_decide_for_their_own_server_only(store: Store) -> None:
    elsewhere = By(actor_id=1, guild_id=HERE + 1)
    job = await painted(store)
    theirs = await store.jobs.enqueue(job.recipe, origin(3, guild_id=HERE + 1), hold=Hold(cause=Cause.MODE))
    claims = await store.leases.claim("worker", limit=2, ttl=TTL)
    for claim, image in zip(claims, job.images, strict=True):
        await store.leases.complete(claim, artifact=image.held, seconds=1.0)
    (review,) = await store.reviews.waiting(HERE + 1, limit=9)
    await store.reviews.decide(review.id, Outcome.SHOWN, elsewhere)
    assert kinds(await store.jobs.get(theirs.id)) == [Showing.SHOW] * 2
    assert kinds(await store.jobs.get(job.id)) == [Showing.HOLD] * 2
    assert kinds(await decide(store, job, Outcome.REJECTED)) == [Showing.WITHHOLD] * 2
    assert kinds(await store.jobs.get(theirs.id)) == [Showing.SHOW] * 2
