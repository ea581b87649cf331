"""What operators look at, on every database: workers, failed images, messages on their way."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from recipes import origin, recipe
from stores import TTL, Clock, OpenStore

from bot.domain.errors import StaleLease, UnknownJob, UserMistake
from bot.domain.jobs import Notes, Showing, State
from bot.domain.levels import Level
from bot.domain.outbox import Outgoing
from bot.store import Store
from bot.store.operations import gallery
from bot.store.operations.gallery import Search
from bot.store.operations.queue import Listed, Wanted
from bot.store.rows.audit import Act, By
from bot.store.rows.restrictions import Scope

LANE = recipe().lane
BY = By(actor_id=7, guild_id=21)


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
    assert [each.id for each in await listed(model="other")] == [other]
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


async def claimed(store: Store, count: int = 9) -> list[str]:
    return [claim.job_id for claim in await store.leases.claim("one", limit=count, ttl=TTL)]


async def acts(store: Store) -> list[tuple[Act, int, int, Any]]:
    entries = await store.moderation.entries(21, limit=9)
    return [(entry.act, entry.actor_id, entry.subject_id, entry.after) for entry in entries]


async def test_a_request_at_the_front_is_next_and_its_person_pays_for_it_as_before(store: Store) -> None:
    for number in (1, 2, 3):
        await store.jobs.enqueue(recipe(), origin(number, user_id=number))
    moved = (await store.jobs.enqueue(recipe(variants=2), origin(4, user_id=1))).id
    for _ in range(2):
        await store.queue.advance(moved, BY)
    assert (await store.positions.of(moved)).place == 1
    assert [each.id for each in await store.queue.listed(Wanted(), limit=1)] == [moved]
    later = (await store.jobs.enqueue(recipe(), origin(5, user_id=1))).id
    others = (await store.jobs.enqueue(recipe(), origin(6, user_id=2))).id
    order = await claimed(store)
    assert order[:2] == [moved, moved]
    assert order.index(others) < order.index(later)
    assert await acts(store) == [(Act.ADVANCE, 7, 1, {"job": moved})]
    await store.queue.advance(moved, BY)
    assert len(await acts(store)) == 1
    with pytest.raises(UnknownJob):
        await store.queue.advance("unknown", BY)


async def test_a_paused_request_waits_until_its_own_pause_and_that_of_its_place_have_ended(
    store: Store,
) -> None:
    held, other = [
        (await store.jobs.enqueue(recipe(), origin(number, user_id=number))).id for number in (1, 2)
    ]
    for _ in range(2):
        await store.queue.pause(held, BY)
    assert (await store.positions.of(held)).paused == ""
    await store.moderation.pause(Scope(guild_id=21), BY)
    await store.moderation.resume(Scope(guild_id=21), BY)
    assert await claimed(store) == [other]
    await store.moderation.pause(Scope(guild_id=21), BY)
    await store.queue.resume(held, BY)
    assert await claimed(store) == []
    await store.moderation.resume(Scope(guild_id=21), BY)
    assert await claimed(store) == [held]
    mine = [entry for entry in await acts(store) if entry[3] == {"job": held}]
    assert [entry[:3] for entry in mine] == [(Act.RESUME, 7, 1), (Act.PAUSE, 7, 1)]


async def test_failed_pictures_are_painted_again_once_and_their_message_follows(
    store: Store, clock: Clock
) -> None:
    job_id = (await store.jobs.enqueue(recipe(variants=2), origin(1, user_id=5))).id
    done, failed = await store.leases.claim("one", limit=2, ttl=TTL)
    await store.leases.complete(done, artifact="aa/1.png", seconds=1.0)
    assert not await store.failures.retry(job_id, 7)
    await store.leases.fail(failed, failure="painting_failed")
    assert not await store.failures.retry(job_id, 7)  # its result is on its way
    (delivery,) = await store.deliveries.claim("front", limit=1)
    await store.deliveries.mark_delivered(delivery, outcome="edited", message_id=9)
    assert await store.failures.jobs_of("painting_failed", since=0.0) == [job_id]
    clock.now += 60
    results = await asyncio.gather(*(store.failures.retry(job_id, 7) for _ in range(3)))
    assert sorted(results) == [False, False, True]
    again = await store.jobs.get(job_id)
    assert (again.state, again.finished_at) == (State.RUNNING, None)
    assert [image.state for image in again.images] == [State.DONE, State.WAITING]
    assert await store.failures.by_cause(since=0.0) == []
    (claim,) = await store.leases.claim("two", limit=9, ttl=TTL)
    with pytest.raises(StaleLease):
        await store.leases.complete(failed, artifact="aa/2.png", seconds=1.0)
    await store.leases.complete(claim, artifact="aa/2.png", seconds=1.0)
    (delivery,) = await store.deliveries.claim("front", limit=1)
    assert (delivery.job.id, delivery.job.state, delivery.job.message_id) == (job_id, State.DONE, 9)
    assert await acts(store) == [(Act.RETRY, 7, 5, {"job": job_id})]


async def test_a_drained_worker_finishes_and_claims_nothing_until_it_is_let_go_on(store: Store) -> None:
    facts: dict[str, Any] = {"version": "1.0.0", "ready": 1, "hourly": 7, "memory": 2**40}

    async def announce() -> None:
        await store.offers.announce("one", lanes=[LANE], seats=2, ttl=TTL, **facts)

    await announce()
    for number in (1, 2):
        await store.jobs.enqueue(recipe(), origin(number))
    (held,) = await store.leases.claim("one", limit=1, ttl=TTL)
    for _ in range(2):
        assert await store.workers.drain("one", BY)
    assert await claimed(store) == []
    assert await store.leases.heartbeat({held: 3}, ttl=TTL) == set()
    await announce()  # as the process does after a restart too
    (worker,) = await store.workers.now()
    assert (worker.drained, worker.seats, worker.lanes) == (True, 0, (str(LANE),))
    assert {name: getattr(worker, name) for name in facts} == facts
    assert await store.offers.unoffered() == []
    assert await claimed(store) == []
    assert await store.workers.drain("one", BY, drained=False)
    assert len(await claimed(store)) == 1
    await announce()
    (worker,) = await store.workers.now()
    assert (worker.drained, worker.seats) == (False, 2)
    assert not await store.workers.drain("nobody", BY)
    assert [entry[0] for entry in await acts(store)] == [Act.UNDRAIN, Act.DRAIN]


async def test_a_null_character_is_refused_and_is_no_outage(store: Store) -> None:
    failures: list[None] = []
    store.shared.database.on_failure = lambda: failures.append(None)
    with suppress(UserMistake):  # SQLite takes it
        await store.queue.listed(Wanted(model="a\0"), limit=1)
    assert failures == []


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
        await store.jobs.enqueue(recipe(model=model, reference="bb/one.png"), origin(number))
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
    notes = values.pop("notes", None)
    asked = recipe(**{name: values.pop(name) for name in ("prompt", "model", "seed") if name in values})
    job = await store.jobs.enqueue(asked, origin(number, **values))
    (claim,) = await store.leases.claim("one", limit=1, ttl=TTL)
    await store.leases.complete(claim, artifact=f"aa/{number}.png", seconds=1.0, notes=notes)
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
    after = ""
    while not found or after:
        page = await store.gallery.find(Search(user_id=user_id), after=after, limit=3)
        found, after = found + [job.id for job in page.jobs], page.further
    assert sorted(found) == sorted(painted_ids)
    assert found[0] in painted_ids[-2:]
    assert found[-1] in painted_ids[:2]


async def test_a_search_in_the_gallery_goes_on_where_it_has_read_enough(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gallery, "SEARCHED", 2)
    monkeypatch.setattr(gallery, "CHUNK", 1)
    oldest = await painted(store, 1, prompt="a zebra")
    for number in range(2, 7):
        clock.now += 1
        await painted(store, number)
    searches, after, found = 0, "", []
    while not searches or after:
        page = await store.gallery.find(Search(words="zebra"), after=after, limit=9)
        searches, after, found = searches + 1, page.further, found + [job.id for job in page.jobs]
    assert found == [oldest]
    assert searches > 2


async def test_the_gallery_finds_by_words_person_server_and_model(store: Store) -> None:
    blue = await painted(store, 1, prompt="A Blue cat", user_id=1)
    red = await painted(store, 2, prompt="a red cat", user_id=2, guild_id=None)
    other = await painted(store, 3, prompt="a blue dog", model="other", user_id=2)

    async def ids(**values: Any) -> set[str]:
        return {job.id for job in (await store.gallery.find(Search(**values), limit=9)).jobs}

    assert await ids(words="cat blue") == {blue}
    assert await ids(user_id=2) == {red, other}
    assert await ids(guild_id=21) == {blue, other}
    assert await ids(model="other") == {other}
    thread = await painted(store, 4, channel_id=77, thread_parent_id=31, user_id=3)
    assert await ids(channel_id=31, user_id=3) == {thread}
    assert await ids(channel_id=77) == {thread}
    assert await ids(channel_id=32) == set()
    assert await ids(user_id=2, words="CAT") == {red}
    assert await ids(words="zebra") == set()
    await store.deliveries.delete_result(blue, user_id=None)
    assert await ids(user_id=1) == set()


async def test_the_gallery_finds_by_seed_level_day_and_star(store: Store, clock: Clock) -> None:
    days = [clock.now + 86_400 * day for day in range(3)]
    mild, first = Notes(level=Level.MILD), await painted(store, 1, seed=7, user_id=1)
    clock.now = days[1]
    second = await painted(store, 2, seed=8, user_id=1, notes=mild)
    clock.now = days[2]
    third = await painted(store, 3, seed=7, user_id=2, notes=mild)

    async def ids(**values: Any) -> list[str]:
        return [job.id for job in (await store.gallery.find(Search(**values), limit=9)).jobs]

    assert await ids(seed=7) == [third, first]
    assert await ids(seed=9) == []
    assert await ids(level=Level.MILD) == [third, second]
    assert await ids(level=Level.NONE) == [first]
    assert await ids(level=Level.MILD, seed=8, user_id=1) == [second]
    assert await ids(since=days[1]) == [third, second]
    assert await ids(since=days[1], until=days[2], user_id=1) == [second]
    assert await ids(until=days[1], guild_id=21) == [first]
    for job_id in (first, third):
        await store.favourites.add(5, job_id)
    assert await ids(starred_by=5) == [third, first]
    assert await ids(starred_by=5, user_id=2, since=days[2]) == [third]
    assert await ids(starred_by=6) == []
    page = await store.gallery.find(Search(starred_by=5), limit=1)
    assert [
        job.id for job in (await store.gallery.find(Search(starred_by=5), after=page.further, limit=1)).jobs
    ] == [first]


async def test_no_picture_that_is_held_is_found_by_its_seed(store: Store) -> None:
    await store.jobs.enqueue(recipe(seed=7), origin(1))
    (claim,) = await store.leases.claim("one", limit=1, ttl=TTL)
    await store.leases.complete(claim, artifact="aa/1.png", seconds=1.0, showing=Showing.HOLD)
    assert (await store.gallery.find(Search(seed=7), limit=9)).jobs == ()


async def test_a_search_ends_where_no_row_fits_and_goes_on_after_what_it_has_read(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gallery, "SEARCHED", 2)
    monkeypatch.setattr(gallery, "CHUNK", 1)
    ids = []
    for number in range(1, 5):
        clock.now += 1
        ids.append(await painted(store, number, private=number > 1))
    page = await store.gallery.find(Search(public=True), limit=9)
    assert (page.jobs, page.further) == ((), ids[2])
