"""What deliveries and positions promise, on every database."""

import pytest
from recipes import ORIGIN, RECIPE, origin, recipe
from stores import TTL, Clock, undelivered

from bot.domain.errors import NotYours, StaleLease
from bot.domain.jobs import Delivery, Job, Notes, Position, State
from bot.store import Store


async def finished(store: Store, number: int, *, artifact: str = "aa/aa.png", variants: int = 1) -> Job:
    """A job that has been painted."""
    job = await store.jobs.enqueue(recipe(variants=variants), origin(number, user_id=number))
    for claim in await store.leases.claim("worker", limit=variants, ttl=TTL):
        job = await store.leases.complete(claim, artifact=artifact, seconds=2.0)
    return job


async def due(store: Store) -> Delivery:
    (delivery,) = await undelivered(store, limit=10)
    return delivery


async def test_a_delivered_result_is_delivered_for_good(store: Store) -> None:
    job = await finished(store, 1)
    delivery = await due(store)
    await store.deliveries.mark_delivered(delivery, outcome="delivered", message_id=99)
    await store.deliveries.mark_delivered(delivery, outcome="channel_gone", message_id=None)
    await store.deliveries.retry(delivery, at=0.0)
    assert await undelivered(store, limit=10) == []
    assert (await store.jobs.get(job.id)).message_id == 99


async def test_a_result_in_another_channel_is_known_to_be_there(store: Store) -> None:
    job = await finished(store, 1)
    await store.deliveries.mark_delivered(
        await due(store), outcome="sent_directly", message_id=99, channel_id=77
    )
    found = await store.jobs.get(job.id)
    assert (found.message_id, found.message_channel_id) == (99, 77)


async def test_an_outcome_without_a_message_leaves_the_known_one(store: Store) -> None:
    job = await finished(store, 1)
    await store.jobs.set_message(job.id, 55)
    await store.deliveries.mark_delivered(await due(store), outcome="channel_gone", message_id=None)
    assert (await store.jobs.get(job.id)).message_id == 55


async def test_a_deleted_result_names_its_files_and_keeps_nothing_that_was_said(
    store: Store, clock: Clock
) -> None:
    job = await finished(store, 1, variants=3)
    assert await store.deliveries.delete_result(job.id, user_id=1) == ["aa/aa.png"]
    deleted = await store.jobs.get(job.id)
    assert deleted.deleted_at == clock.now
    assert deleted.state is State.DONE
    assert (deleted.recipe.prompt, deleted.recipe.negative_prompt) == ("", "")
    assert (deleted.origin.interaction_token, deleted.origin.user_name) == ("", "")
    assert {image.notes for image in deleted.images} == {Notes()}
    assert {image.artifact for image in deleted.images} == {None}
    assert await undelivered(store, limit=10) == []


async def test_only_the_owner_or_a_moderator_deletes(store: Store) -> None:
    job = await finished(store, 1)
    with pytest.raises(NotYours):
        await store.deliveries.delete_result(job.id, user_id=2)
    assert await store.jobs.get(job.id) == job


async def test_deleting_what_is_not_painted_yet_cancels_it_silently(store: Store) -> None:
    job = await store.jobs.enqueue(RECIPE, ORIGIN)
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    assert await store.deliveries.delete_result(job.id, user_id=ORIGIN.user_id) == []
    assert (await store.jobs.get(job.id)).state is State.CANCELLED
    assert await undelivered(store, limit=10) == []
    with pytest.raises(StaleLease):
        await store.leases.complete(claim, artifact="aa/aa.png", seconds=1.0)


async def test_positions_follow_the_fair_order(store: Store) -> None:
    many = await store.jobs.enqueue(recipe(variants=3), origin(1, user_id=1))
    more = await store.jobs.enqueue(RECIPE, origin(2, user_id=1))
    other = await store.jobs.enqueue(RECIPE, origin(3, user_id=2))
    expected = {
        many.id: Position(place=1, ahead=0, seconds=None),
        other.id: Position(place=2, ahead=1, seconds=None),
        more.id: Position(place=3, ahead=4, seconds=None),
    }
    assert await store.positions.of_all([more.id, many.id, other.id]) == expected
    assert {job_id: await store.positions.of(job_id) for job_id in expected} == expected


async def test_time_to_start_comes_from_measured_runs_and_announced_seats(store: Store, clock: Clock) -> None:
    await finished(store, 0)  # 2 s for 20 steps
    await store.offers.announce("worker", lanes=[RECIPE.lane], seats=1, ttl=TTL)
    await store.jobs.enqueue(recipe(variants=2, num_inference_steps=20), origin(1, user_id=1))
    last = await store.jobs.enqueue(recipe(variants=1, num_inference_steps=50), origin(2, user_id=2))
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    await store.leases.heartbeat({claim: 5}, ttl=TTL)
    assert (await store.positions.of(last.id)).seconds == pytest.approx(1.5 + 2.0)
    await store.offers.announce("worker", lanes=[RECIPE.lane], seats=2, ttl=TTL)
    assert (await store.positions.of(last.id)).seconds == pytest.approx(1.5)
    clock.now += TTL
    assert (await store.positions.of(last.id)).seconds is None


async def test_a_job_of_which_nothing_waits_has_no_place(store: Store) -> None:
    job = await finished(store, 1)
    assert await store.positions.of(job.id) == Position(place=0, ahead=0, seconds=None)
    assert await store.positions.of_all([job.id, "nothere1"]) == {
        job.id: Position(place=0, ahead=0, seconds=None)
    }
