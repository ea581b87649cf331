"""What requests count against quotas, and what is given back, on every database."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from recipes import origin, recipe
from stores import TTL, Clock, OpenStore

from bot.domain.errors import UserMistake
from bot.domain.jobs import Job, Showing
from bot.domain.quotas import Caps, Charge, Measure, Quota
from bot.domain.time_units import DAY_SECONDS, HOUR_SECONDS
from bot.store import Store

HERE, ELSEWHERE, CHANNEL, THREAD, OTHER_CHANNEL = 21, 22, 31, 39, 32
MINA, RAVI = 11, 12
OF_HOUR = Quota(
    key="pictures_per_hour", measure=Measure.PICTURES, limit=10, seconds=HOUR_SECONDS, guild_id=HERE
)
OF_DAY = Quota(key="cost_per_day", measure=Measure.COST, limit=20, seconds=DAY_SECONDS, guild_id=HERE)
IN_CHANNEL = Quota(
    key="pictures_per_day",
    measure=Measure.PICTURES,
    limit=4,
    seconds=DAY_SECONDS,
    guild_id=HERE,
    channel_id=CHANNEL,
)
EVERYWHERE = Quota(key="pictures_per_day", measure=Measure.PICTURES, limit=12, seconds=DAY_SECONDS)
COOL_DOWN = Quota(key="cool_down", measure=Measure.REQUESTS, limit=1, seconds=60, guild_id=HERE)


async def ask(
    store: Store,
    number: int,
    *quotas: Quota,
    pictures: int = 1,
    cost: float = 1.0,
    parent: int | None = None,
    **where: Any,
) -> Job:
    charge = Charge(pictures=pictures, cost=cost, quotas=quotas)
    asked = origin(number, thread_parent_id=parent, **where)
    return await store.jobs.enqueue(recipe(variants=pictures), asked, charge=charge)


async def left(store: Store, *quotas: Quota, user_id: int = MINA) -> list[float]:
    return [each.left for each in await store.charges.left(user_id, quotas)]


async def refused(store: Store, number: int, *quotas: Quota, **how: Any) -> UserMistake:
    with pytest.raises(UserMistake) as caught:
        await ask(store, number, *quotas, **how)
    return caught.value


async def test_of_two_requests_at_once_for_the_last_pictures_one_is_taken(open_store: OpenStore) -> None:
    stores = [await open_store(), await open_store()]
    await ask(stores[0], 1, OF_HOUR, pictures=5)
    asked = [ask(stores[number % 2], number + 2, OF_HOUR, pictures=5) for number in range(4)]
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(each) for each in found].count(Job) == 1
    assert {each.message_id for each in found if isinstance(each, UserMistake)} == {"quota_pictures_per_hour"}
    assert await left(stores[0], OF_HOUR) == [0]
    assert await stores[0].jobs.count_active(user_id=MINA) == 2


async def test_a_refused_request_costs_nothing_and_says_when_there_is_room(
    store: Store, clock: Clock
) -> None:
    await ask(store, 1, OF_HOUR, pictures=4)
    first, clock.now = clock.now, clock.now + 600
    await ask(store, 2, OF_HOUR, pictures=4)
    error = await refused(store, 3, OF_HOUR, pictures=5)
    assert error.message_id == "quota_pictures_per_hour"
    assert error.details == {"limit": "10", "left": "2"}
    [further] = error.further
    assert (further.message_id, further.details["at"]) == ("quota_again", first + HOUR_SECONDS)
    assert await left(store, OF_HOUR) == [2]
    clock.now = first + HOUR_SECONDS
    await ask(store, 4, OF_HOUR, pictures=5)
    assert (await refused(store, 5, OF_HOUR, pictures=9)).further[0].details["at"] == clock.now + HOUR_SECONDS


async def test_a_request_larger_than_a_used_up_quota_is_told_when_the_next_picture_is_free(
    store: Store, clock: Clock
) -> None:
    await ask(store, 1, OF_HOUR, pictures=10)
    error = await refused(store, 2, OF_HOUR, pictures=11)
    again, fewer = error.further
    assert (again.message_id, fewer.message_id) == ("quota_next", "quota_fewer")
    assert again.details["at"] == clock.now + HOUR_SECONDS


async def test_a_request_larger_than_its_quota_is_told_to_be_smaller(store: Store) -> None:
    error = await refused(store, 1, OF_DAY, pictures=3, cost=7.0)
    assert (error.message_id, error.further[0].message_id) == ("quota_cost_per_day", "quota_fewer")
    await ask(store, 1, OF_DAY, pictures=2, cost=7.0)
    assert await left(store, OF_DAY) == [6]


async def test_a_repeated_interaction_is_charged_once_and_never_refused(store: Store) -> None:
    job = await ask(store, 1, OF_HOUR, pictures=9)
    assert (await ask(store, 1, OF_HOUR, pictures=9)).id == job.id
    assert await left(store, OF_HOUR) == [1]


async def test_cancelled_pictures_are_given_back_and_finished_ones_are_not(store: Store) -> None:
    job = await ask(store, 1, OF_HOUR, pictures=4)
    [first, _] = await store.leases.claim("worker", limit=2, ttl=TTL)
    await store.leases.complete(first, artifact="aa/aa.png", seconds=1.0)
    assert await left(store, OF_HOUR) == [6]
    await store.jobs.cancel(job.id, user_id=MINA)
    assert await left(store, OF_HOUR) == [9]


async def test_failed_and_withheld_pictures_are_given_back(store: Store) -> None:
    await ask(store, 1, OF_HOUR, pictures=3)
    shown, failed, withheld = await store.leases.claim("worker", limit=3, ttl=TTL)
    await store.leases.fail(failed, failure="painting_failed")
    await store.leases.complete(withheld, artifact=None, seconds=1.0, showing=Showing.WITHHOLD)
    await store.leases.complete(shown, artifact="aa/aa.png", seconds=1.0)
    assert await left(store, OF_HOUR, OF_DAY) == [9, 19]


async def test_a_deletion_gives_back_only_what_was_not_painted(store: Store) -> None:
    job = await ask(store, 1, OF_HOUR, pictures=2)
    for claim in await store.leases.claim("worker", limit=2, ttl=TTL):
        await store.leases.complete(claim, artifact="aa/aa.png", seconds=1.0)
    waiting = await ask(store, 2, OF_HOUR, pictures=3)
    await store.deliveries.delete_result(job.id, user_id=MINA)
    await store.deliveries.delete_result(waiting.id, user_id=MINA)
    assert await left(store, OF_HOUR) == [8]
    await store.erasure.erase([job.id, waiting.id])
    assert await left(store, OF_HOUR) == [8]


async def test_charges_go_a_day_later(store: Store, clock: Clock) -> None:
    await ask(store, 1, OF_DAY, pictures=2)
    clock.now += DAY_SECONDS - 1
    await ask(store, 2, OF_DAY, pictures=2)
    assert await store.charges.lapse() == 0
    clock.now += 2
    assert await store.charges.lapse() == 1
    assert await left(store, OF_DAY) == [18]


async def test_a_quota_counts_where_it_was_set(store: Store) -> None:
    await ask(store, 1, pictures=2, channel_id=OTHER_CHANNEL)
    await ask(store, 2, pictures=1, channel_id=THREAD, parent=CHANNEL)
    await ask(store, 3, pictures=1, channel_id=CHANNEL)
    await ask(store, 4, pictures=5, guild_id=ELSEWHERE, channel_id=77)
    await ask(store, 5, pictures=1, guild_id=None, channel_id=78)
    await ask(store, 6, pictures=9, user_id=RAVI)
    assert await left(store, IN_CHANNEL, OF_HOUR, EVERYWHERE) == [2, 6, 2]


async def test_a_cool_down_lets_the_next_request_in_after_its_seconds(store: Store, clock: Clock) -> None:
    job = await ask(store, 1, COOL_DOWN, pictures=3)
    clock.now += 59
    error = await refused(store, 2, COOL_DOWN)
    assert (error.message_id, error.details) == ("quota_cool_down", {"seconds": "60"})
    assert error.further[0].details["at"] == clock.now + 1
    assert await store.charges.free_at(MINA, COOL_DOWN) == clock.now + 1
    await ask(store, 3, COOL_DOWN, user_id=RAVI)
    await store.jobs.cancel(job.id, user_id=MINA)
    assert await store.charges.free_at(MINA, COOL_DOWN) is None
    await ask(store, 2, COOL_DOWN)
    clock.now += 60
    await ask(store, 4, COOL_DOWN)


async def test_a_job_keeps_the_quota_of_which_little_is_left(store: Store) -> None:
    plenty = await ask(store, 1, OF_HOUR, OF_DAY, pictures=7)
    assert plenty.origin.policy == {}
    little = await store.jobs.enqueue(
        recipe(),
        origin(2, policy={"previews": False}),
        charge=Charge(pictures=1, cost=1.0, quotas=(OF_HOUR, OF_DAY)),
    )
    kept = {"previews": False, "left": {"key": "pictures_per_hour", "left": 2, "limit": 10}}
    assert (await store.jobs.get(little.id)).origin.policy == kept


async def test_a_look_before_the_work_refuses_as_the_request_would(store: Store) -> None:
    await ask(store, 1, OF_HOUR, pictures=9)
    charge = Charge(pictures=2, cost=1.0, quotas=(OF_HOUR,))
    with pytest.raises(UserMistake):
        await store.jobs.check_caps(origin(2), caps=Caps(), charge=charge)
