"""What operators look at, on every database: workers, failed images, messages on their way."""

from __future__ import annotations

from typing import Any

import pytest
from recipes import origin, recipe
from stores import TTL, Clock, OpenStore

from bot.domain.jobs import State
from bot.domain.outbox import Outgoing
from bot.store import Store
from bot.store.operations.gallery import Search
from bot.store.operations.queue import Listed, Wanted
from bot.store.rows.audit import By
from bot.store.rows.restrictions import Scope

LANE = recipe().lane


async def test_the_queue_lists_what_runs_what_waits_and_what_is_paused_and_why(store: Store) -> None:
    await store.offers.announce("one", lanes=[LANE], seats=1, ttl=TTL)
    runs, waits, other = [
        (await store.jobs.enqueue(recipe(variants=2, model=model), origin(number, user_id=number))).id
        for number, model in ((1, "demo"), (2, "demo"), (3, "other"))
    ]
    await store.leases.claim("one", limit=1, ttl=TTL)
    scope, by = Scope(guild_id=22), By(actor_id=7, guild_id=22, reason="a fire")
    await store.moderation.pause(scope, by)
    paused = (await store.jobs.enqueue(recipe(), origin(4, user_id=4, guild_id=22))).id

    async def listed(limit: int = 9, **wanted: Any) -> list[Listed]:
        return await store.queue.listed(Wanted(**wanted), limit=limit)

    found = await listed()
    assert [each.id for each in found] == [runs, waits, other, paused]
    assert [each.place for each in found] == [None, 1, 2, None]
    assert [each.offered for each in found] == [True, True, False, True]
    assert [(each.done, each.pictures) for each in found[:2]] == [(0, 2), (0, 2)]
    assert (found[0].state, found[3].paused, found[3].pause) == (State.RUNNING, True, "a fire")
    assert (await listed(model="other"))[0].place == 2
    assert [each.id for each in await listed(limit=2)] == [runs, waits]
    assert [each.id for each in await listed(kind="paused")] == [paused]
    assert [each.id for each in await listed(user_id=2)] == [waits]
    assert [each.id for each in await listed(guild_id=22)] == [paused]
    assert await listed(kind="running", model="oth") == []


async def test_the_revision_is_another_one_after_each_change_of_any_process(open_store: OpenStore) -> None:
    store, other = await open_store(), await open_store()
    before = await store.revision()
    assert await store.revision() == before
    await other.jobs.enqueue(recipe(), origin(1))
    assert await store.revision() != before


async def test_a_worker_shows_its_lanes_and_what_it_paints_while_it_lives(store: Store, clock: Clock) -> None:
    await store.offers.announce("one", lanes=[LANE, recipe(width=256).lane], seats=4, ttl=TTL)
    await store.offers.announce("two", lanes=[LANE], seats=2, ttl=2 * TTL)
    await store.jobs.enqueue(recipe(variants=2, num_inference_steps=20), origin(1))
    claims = await store.leases.claim("one", limit=2, ttl=TTL)
    await store.leases.heartbeat({claims[0]: 5, claims[1]: 0}, ttl=TTL, begun=claims[:1])
    first, second = await store.workers.now()
    assert (first.name, first.seats, len(first.lanes)) == ("one", 4, 2)
    assert [(image.index, image.step, image.steps, image.begun) for image in first.images] == [
        (0, 5, 20, True),
        (1, 0, 20, False),
    ]
    assert (second.name, second.images) == ("two", ())
    clock.now += TTL
    assert [worker.name for worker in await store.workers.now()] == ["two"]


async def test_failed_images_are_counted_by_cause_the_most_frequent_first(store: Store, clock: Clock) -> None:
    for number, (cause, model) in enumerate(
        [("bad_loras", "demo"), ("painting_failed", "demo"), ("painting_failed", "other")], start=1
    ):
        clock.now += 60
        await store.jobs.enqueue(recipe(model=model), origin(number))
        (claim,) = await store.leases.claim("one", limit=1, ttl=TTL)
        await store.leases.fail(claim, failure=cause)
    last, earlier = await store.failures.by_cause(since=0.0)
    assert (last.cause, last.images, last.models, last.last_at) == (
        "painting_failed",
        2,
        {"demo": 1, "other": 1},
        clock.now,
    )
    assert len(last.job_ids) == 2
    assert earlier.cause == "bad_loras"
    (only,) = await store.failures.by_cause(since=clock.now)
    assert only.images == 1


async def test_unsent_messages_are_counted_and_can_be_sent_at_once(store: Store, clock: Clock) -> None:
    for number in (1, 2):
        await store.jobs.enqueue(recipe(), origin(number))
        (claim,) = await store.leases.claim("one", limit=1, ttl=TTL)
        await store.leases.complete(claim, artifact=f"aa/{number}.png", seconds=1.0)
    first, _ = await store.deliveries.claim("front", limit=2)
    await store.deliveries.retry(first, at=clock.now + 600)
    (waiting,) = await store.messages.waiting()
    assert (waiting.kind, waiting.due, waiting.later, waiting.oldest) == ("result", 1, 1, clock.now)
    due, later = await store.messages.unsent(Outgoing.RESULT, limit=50)
    assert later.job_id == first.job.id
    assert await store.messages.send_now(later.id)
    (waiting,) = await store.messages.waiting()
    assert (waiting.due, waiting.later) == (2, 0)
    assert {each.job.id for each in await store.deliveries.claim("front", limit=2)} == {
        later.job_id,
        due.job_id,
    }
    for delivery in await store.deliveries.claim("front", limit=2):
        await store.deliveries.mark_delivered(delivery, outcome="edited", message_id=9)
    assert not await store.messages.send_now(later.id)
    assert await store.messages.waiting() == []


async def painted(store: Store, number: int, **values: Any) -> str:
    prompt, model = values.pop("prompt", "a cat"), values.pop("model", "demo")
    job = await store.jobs.enqueue(recipe(prompt=prompt, model=model), origin(number, **values))
    (claim,) = await store.leases.claim("one", limit=1, ttl=TTL)
    await store.leases.complete(claim, artifact=f"aa/{number}.png", seconds=1.0)
    return job.id


@pytest.mark.parametrize("user_id", [None, 11], ids=["everybody", "one person"])
async def test_the_gallery_goes_through_all_pictures_once_the_newest_first(
    store: Store, clock: Clock, user_id: int | None
) -> None:
    painted_ids = []
    for number in range(1, 8):
        clock.now += number % 2  # two of them end in the same moment
        painted_ids.append(await painted(store, number))
    await store.jobs.enqueue(recipe(), origin(99))
    found: list[str] = []
    while page := await store.gallery.find(
        Search(user_id=user_id), after=found[-1] if found else "", limit=3
    ):
        found += [job.id for job in page]
    assert sorted(found) == sorted(painted_ids)
    assert found[0] in painted_ids[-2:]
    assert found[-1] in painted_ids[:2]


async def test_the_gallery_finds_by_words_person_server_and_model(store: Store) -> None:
    blue = await painted(store, 1, prompt="A Blue cat", user_id=1)
    red = await painted(store, 2, prompt="a red cat", user_id=2, guild_id=None)
    other = await painted(store, 3, prompt="a blue dog", model="other", user_id=2)

    async def ids(**values: Any) -> set[str]:
        return {job.id for job in await store.gallery.find(Search(**values), limit=9)}

    assert await ids(words="cat blue") == {blue}
    assert await ids(user_id=2) == {red, other}
    assert await ids(guild_id=21) == {blue, other}
    assert await ids(model="other") == {other}
    assert await ids(user_id=2, words="CAT") == {red}
    assert await ids(words="zebra") == set()
    await store.deliveries.delete_result(blue, user_id=None)
    assert await ids(user_id=1) == set()
