"""The contract of enqueue, reading and cancel, on every database."""

import asyncio

import pytest
from recipes import ORIGIN, RECIPE, origin, recipe
from stores import TTL, Clock, OpenStore, undelivered

from bot.domain.errors import NotYours, UnknownJob, UserMistake
from bot.domain.jobs import State
from bot.domain.quotas import Caps
from bot.store import Store

LARGEST_SNOWFLAKE = 2**63 - 1


async def test_a_job_is_stored_as_requested(store: Store, clock: Clock) -> None:
    asked = recipe(prompt="별 🌟 “quoted”; DROP TABLE jobs", guidance_scale=7.1, variants=3)
    job = await store.jobs.enqueue(asked, ORIGIN)
    assert await store.jobs.get(job.id) == job
    assert (job.recipe, job.origin, job.state, job.created_at) == (asked, ORIGIN, State.WAITING, clock.now)
    assert (job.started_at, job.finished_at, job.message_id, job.deleted_at) == (None, None, None, None)
    assert [(image.index, image.seed, image.state) for image in job.images] == [
        (0, 7, State.WAITING),
        (1, 8, State.WAITING),
        (2, 9, State.WAITING),
    ]


async def test_ids_of_discords_size_are_stored(store: Store) -> None:
    large = origin(
        LARGEST_SNOWFLAKE,
        user_id=LARGEST_SNOWFLAKE,
        channel_id=LARGEST_SNOWFLAKE,
        application_id=LARGEST_SNOWFLAKE,
        guild_id=None,
    )
    job = await store.jobs.enqueue(recipe(seed=2**32 - 1, variants=2), large)
    assert job.origin == large
    assert [image.seed for image in job.images] == [2**32 - 1, 0]


async def test_a_job_id_can_be_read_out(store: Store) -> None:
    job = await store.jobs.enqueue(RECIPE, ORIGIN)
    assert 8 <= len(job.id) <= 10
    assert job.id.isascii()
    assert job.id.isalnum()
    assert job.id == job.id.lower()


async def test_a_taken_job_id_is_not_used_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    first = await store.jobs.enqueue(RECIPE, origin(1))
    drawn = iter([first.id, first.id, "free1234"])
    monkeypatch.setattr("bot.store.queue.jobs.new_job_id", lambda: next(drawn))
    second = await store.jobs.enqueue(RECIPE, origin(2))
    assert second.id == "free1234"
    assert await store.jobs.get(first.id) == first


async def test_the_same_interaction_makes_one_job(store: Store, open_store: OpenStore) -> None:
    stores = [store, await open_store(), await open_store()]
    made = await asyncio.gather(*(one.jobs.enqueue(RECIPE, ORIGIN) for one in stores * 4))
    assert {job.id for job in made} == {made[0].id}
    assert (await store.jobs.counts())[State.WAITING] == 1
    assert await store.jobs.by_interaction(ORIGIN.interaction_id) == made[0]


async def test_the_same_interaction_is_answered_after_the_job_has_ended(store: Store) -> None:
    job = await store.jobs.enqueue(RECIPE, ORIGIN)
    ended = await store.jobs.cancel(job.id, user_id=None)
    assert await store.jobs.enqueue(RECIPE, ORIGIN, caps=Caps(waiting=0)) == ended


async def test_hard_caps_refuse_with_their_limit(store: Store) -> None:
    caps = Caps(waiting_per_user=2, waiting=3)
    await store.jobs.enqueue(RECIPE, origin(1), caps=caps)
    await store.jobs.enqueue(RECIPE, origin(2), caps=caps)
    with pytest.raises(UserMistake) as mine:
        await store.jobs.enqueue(RECIPE, origin(3), caps=caps)
    assert (mine.value.message_id, mine.value.details) == ("queue_full_user", {"limit": 2})
    await store.jobs.enqueue(RECIPE, origin(4, user_id=12), caps=caps)
    with pytest.raises(UserMistake) as everyone:
        await store.jobs.enqueue(RECIPE, origin(5, user_id=13), caps=caps)
    assert (everyone.value.message_id, everyone.value.details) == ("queue_full", {"limit": 3})
    assert (await store.jobs.counts())[State.WAITING] == 3


async def test_a_server_has_its_own_cap(store: Store) -> None:
    caps = Caps(waiting_per_server=2, waiting=9)
    for number in range(2):
        await store.jobs.enqueue(RECIPE, origin(number, user_id=number), caps=caps)
    with pytest.raises(UserMistake) as refused:
        await store.jobs.enqueue(RECIPE, origin(3, user_id=3), caps=caps)
    assert (refused.value.message_id, refused.value.details) == ("queue_full_server", {"limit": 2})
    await store.jobs.enqueue(RECIPE, origin(4, guild_id=ORIGIN.application_id), caps=caps)
    await store.jobs.enqueue(RECIPE, origin(5, guild_id=None), caps=caps)
    assert (await store.jobs.counts())[State.WAITING] == 4


async def test_beyond_the_full_share_pictures_are_accepted_and_come_later(store: Store) -> None:
    caps = Caps(images_at_full_share=4)
    full = await store.jobs.enqueue(recipe(variants=4), origin(1, user_id=1), caps=caps)
    slowed = await store.jobs.enqueue(recipe(variants=4), origin(2, user_id=1), caps=caps)
    other = await store.jobs.enqueue(recipe(variants=8), origin(3, user_id=2))
    assert [full.slowed, slowed.slowed, other.slowed] == [False, True, False]
    claims = await store.leases.claim("worker", limit=12, ttl=TTL)
    last = [claim.job_id for claim in claims][8:]
    assert (last.count(slowed.id), last.count(other.id)) == (1, 3)
    assert not (await store.jobs.enqueue(RECIPE, origin(4, user_id=1), caps=caps)).slowed


async def test_running_jobs_do_not_count_against_the_caps(store: Store) -> None:
    caps = Caps(waiting_per_user=1, waiting=1)
    await store.jobs.enqueue(RECIPE, origin(1), caps=caps)
    await store.leases.claim("worker", limit=1, ttl=TTL)
    await store.jobs.enqueue(RECIPE, origin(2), caps=caps)
    assert (await store.jobs.counts())[State.WAITING] == 1


async def test_a_missing_job_raises_unknown_job(store: Store) -> None:
    with pytest.raises(UnknownJob):
        await store.jobs.get("nothere1")
    with pytest.raises(UnknownJob):
        await store.jobs.by_interaction(404)
    with pytest.raises(UnknownJob):
        await store.positions.of("nothere1")
    with pytest.raises(UnknownJob):
        await store.jobs.cancel("nothere1", user_id=None)
    with pytest.raises(UnknownJob):
        await store.deliveries.delete_result("nothere1", user_id=None)


async def test_active_jobs_come_in_fair_order_and_can_be_narrowed(store: Store) -> None:
    many = await store.jobs.enqueue(recipe(variants=3), origin(1, user_id=1, guild_id=100))
    more = await store.jobs.enqueue(RECIPE, origin(2, user_id=1, guild_id=200))
    other = await store.jobs.enqueue(RECIPE, origin(3, user_id=2, guild_id=100))
    ended = await store.jobs.enqueue(RECIPE, origin(4, user_id=3, guild_id=100))
    await store.jobs.cancel(ended.id, user_id=3)

    async def ids(**narrowed: int) -> list[str]:
        return [job.id for job in await store.jobs.active(**narrowed)]

    assert await ids() == [many.id, other.id, more.id]
    assert await ids(limit=2) == [many.id, other.id]
    assert await ids(user_id=1) == [many.id, more.id]
    assert await ids(guild_id=100) == [many.id, other.id]
    assert await ids(user_id=1, guild_id=200) == [more.id]
    assert await ids(user_id=3) == []


async def test_active_jobs_are_counted_as_far_as_one_of_them(store: Store) -> None:
    jobs = [await store.jobs.enqueue(RECIPE, origin(number, user_id=number)) for number in range(4)]
    await store.leases.claim("worker", limit=1, ttl=TTL)
    far = await store.jobs.enqueue(recipe(variants=3), origin(9, user_id=0, guild_id=9))
    assert [job.id for job in await store.jobs.active()] == [job.id for job in [*jobs, far]]
    assert await store.jobs.count_active() == 5
    assert await store.jobs.count_active(guild_id=9) == 1
    assert await store.jobs.count_active(user_id=0) == 2
    assert [await store.jobs.count_active(before=job.id) for job in [*jobs, far]] == [0, 1, 2, 3, 4]
    assert await store.jobs.count_active(guild_id=ORIGIN.guild_id, before=jobs[2].id) == 2


async def test_a_persons_jobs_are_paged_newest_first_in_both_directions(store: Store) -> None:
    jobs = [await store.jobs.enqueue(RECIPE, origin(number)) for number in range(1, 7)]
    await store.jobs.enqueue(RECIPE, origin(7, user_id=99))
    await store.jobs.cancel(jobs[0].id, user_id=None)

    async def numbers(**bounds: int) -> list[int]:
        found = await store.jobs.history(ORIGIN.user_id, limit=2, **bounds)
        return [job.origin.interaction_id for job in found]

    assert await numbers() == [6, 5]
    assert await numbers(older_than=5) == [4, 3]
    assert await numbers(older_than=1) == []
    assert await numbers(newer_than=2) == [4, 3]
    assert await numbers(newer_than=5) == [6]


async def test_counts_tell_jobs_in_every_state(store: Store) -> None:
    for number in range(4):
        await store.jobs.enqueue(RECIPE, origin(number, user_id=number))
    done, failed = await store.leases.claim("worker", limit=2, ttl=TTL)
    await store.leases.complete(done, artifact="aa/aa.png", seconds=1.0)
    await store.leases.fail(failed, failure="nan")
    await store.leases.claim("worker", limit=1, ttl=TTL)
    assert await store.jobs.counts() == {
        State.WAITING: 1,
        State.RUNNING: 1,
        State.DONE: 1,
        State.FAILED: 1,
        State.CANCELLED: 0,
    }


async def test_a_waiting_job_is_cancelled_and_its_owner_told(store: Store, clock: Clock) -> None:
    job = await store.jobs.enqueue(recipe(variants=2), ORIGIN)
    cancelled = await store.jobs.cancel(job.id, user_id=ORIGIN.user_id)
    assert cancelled.state is State.CANCELLED
    assert cancelled.finished_at == clock.now
    assert {image.state for image in cancelled.images} == {State.CANCELLED}
    assert [delivery.job for delivery in await undelivered(store, limit=10)] == [cancelled]
    assert await store.leases.claim("worker", limit=9, ttl=TTL) == []


async def test_cancelling_again_changes_and_delivers_nothing_more(store: Store, clock: Clock) -> None:
    job = await store.jobs.enqueue(RECIPE, ORIGIN)
    cancelled = await store.jobs.cancel(job.id, user_id=ORIGIN.user_id)
    clock.now += 5
    assert await store.jobs.cancel(job.id, user_id=ORIGIN.user_id) == cancelled
    assert len(await undelivered(store, limit=10)) == 1


async def test_only_the_owner_or_a_moderator_cancels(store: Store) -> None:
    job = await store.jobs.enqueue(RECIPE, ORIGIN)
    with pytest.raises(NotYours):
        await store.jobs.cancel(job.id, user_id=ORIGIN.user_id + 1)
    assert await store.jobs.get(job.id) == job
    assert (await store.jobs.cancel(job.id, user_id=None)).state is State.CANCELLED


async def test_cancelling_a_partly_painted_job_keeps_what_is_painted(store: Store) -> None:
    job = await store.jobs.enqueue(recipe(variants=3), ORIGIN)
    painted, running = await store.leases.claim("worker", limit=2, ttl=TTL)
    await store.leases.complete(painted, artifact="aa/aa.png", seconds=1.0)
    cancelled = await store.jobs.cancel(job.id, user_id=ORIGIN.user_id)
    assert cancelled.state is State.DONE
    assert [image.state for image in cancelled.images] == [State.DONE, State.CANCELLED, State.CANCELLED]
    assert await store.leases.heartbeat({running: 3}, ttl=TTL) == {running.image_id}
    assert [delivery.job for delivery in await undelivered(store, limit=10)] == [cancelled]


async def test_new_work_wakes_every_waiting_loop_and_one_that_waits_later(store: Store) -> None:
    async with asyncio.timeout(5):
        waiters = [asyncio.create_task(store.wake_ups.work.wait(60)) for _ in range(2)]
        await asyncio.sleep(0)
        await store.jobs.enqueue(RECIPE, origin(1))
        await asyncio.gather(*waiters)
        await store.jobs.enqueue(RECIPE, origin(2))
        await store.wake_ups.work.wait(60)
        await store.wake_ups.work.wait(0.01)  # without new work the wait ends by itself


async def test_a_finished_job_wakes_the_outbox(store: Store) -> None:
    job = await store.jobs.enqueue(RECIPE, ORIGIN)
    async with asyncio.timeout(5):
        waiter = asyncio.create_task(store.wake_ups.results.wait(60))
        await asyncio.sleep(0)
        await store.jobs.cancel(job.id, user_id=None)
        await waiter


async def test_caps_can_be_checked_before_any_work_for_a_request(store: Store) -> None:
    caps = Caps(waiting_per_user=1)
    await store.jobs.check_caps(origin(1), caps=caps)
    await store.jobs.enqueue(RECIPE, origin(1), caps=caps)
    await store.jobs.check_caps(origin(1), caps=caps)  # the same interaction has its place already
    with pytest.raises(UserMistake, match="queue_full_user"):
        await store.jobs.check_caps(origin(2), caps=caps)
    await store.jobs.check_caps(origin(2, user_id=99), caps=caps)


async def asked(store: Store, number: int, *, places: int = 1, caps: Caps, **values: int | None) -> str:
    """Enqueue, and return "queued" or the code of the refusal."""
    try:
        await store.jobs.enqueue(RECIPE, origin(number, **values), caps=caps, places=places)
    except UserMistake as error:
        return error.message_id
    return "queued"


async def test_fifty_accounts_of_one_server_do_not_lock_out_others(store: Store) -> None:
    caps = Caps(waiting_per_user=6, waiting_per_server=20, waiting=40, kept=0.1)
    answers = [
        await asked(store, number, user_id=number % 50, guild_id=100, places=2, caps=caps)
        for number in range(100)
    ]
    assert answers.count("queued") == 10
    assert set(answers) == {"queued", "queue_full_server"}
    assert await asked(store, 200, user_id=200, guild_id=200, caps=caps) == "queued"
    assert await asked(store, 201, user_id=201, guild_id=None, caps=caps) == "queued"


async def test_direct_messages_count_as_one_server(store: Store) -> None:
    caps = Caps(waiting_per_server=2, waiting=9)
    answers = [await asked(store, number, user_id=number, guild_id=None, caps=caps) for number in range(3)]
    assert answers == ["queued", "queued", "queue_full"]
    assert await asked(store, 9, user_id=9, caps=caps) == "queued"


async def test_caps_count_what_a_request_costs_and_let_a_large_one_in_alone(store: Store) -> None:
    caps = Caps(waiting_per_user=10)
    assert await asked(store, 1, places=67, caps=caps) == "queued"
    assert await asked(store, 2, caps=caps) == "queue_full_user"
    assert await asked(store, 3, user_id=2, places=7, caps=caps) == "queued"
    assert await asked(store, 4, user_id=2, places=4, caps=caps) == "queue_full_user"
    assert await asked(store, 5, user_id=2, places=3, caps=caps) == "queued"


async def test_the_last_places_are_reserved_for_people_without_waiting_requests(store: Store) -> None:
    caps = Caps(waiting_per_user=99, waiting=10, kept=0.2)
    answers = [await asked(store, number, user_id=1, caps=caps) for number in range(9)]
    assert answers == ["queued"] * 8 + ["queue_full"]
    assert [await asked(store, 20 + user, user_id=user, caps=caps) for user in (2, 3, 4)] == [
        "queued",
        "queued",
        "queue_full",
    ]
