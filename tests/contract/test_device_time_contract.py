"""The devices' time in sums that outlive their jobs, on every database."""

from __future__ import annotations

import asyncio
from datetime import date

import pytest
from recipes import origin, recipe
from stores import TTL, Clock, OpenStore, undelivered

from bot.domain.errors import StaleLease
from bot.domain.jobs import Claim, State
from bot.store import Store
from bot.store.rows.device_time import Grouping, Spent, Sum

MINA, OMAR, HERE = 11, 12, 21
DAY = 86_400.0


def spent(seconds: float, accelerator: str = "cpu") -> Spent:
    return Spent(accelerator=accelerator, seconds=seconds)


async def claimed(store: Store, number: int, *, user_id: int = MINA, model: str = "demo") -> Claim:
    await store.jobs.enqueue(recipe(model=model), origin(number, user_id=user_id))
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    return claim


async def painted(store: Store, number: int, seconds: float, *, user_id: int = MINA, **values: str) -> Claim:
    claim = await claimed(store, number, user_id=user_id, model=values.get("model", "demo"))
    used = spent(seconds, values.get("accelerator", "cpu"))
    await store.leases.complete(claim, artifact="aa/aa.png", seconds=1.0, spent=used)
    return claim


async def by(store: Store, *groupings: Grouping) -> dict[tuple[str | int, ...], tuple[float, int]]:
    """Seconds and pictures by group, where each group has one class of accelerators."""
    return {each.group: (each.seconds, each.pictures) for each in await store.device_time.sums(groupings)}


async def test_old_months_are_added_up_without_their_persons(store: Store, clock: Clock) -> None:
    await painted(store, 1, 2.0)  # on 12 January 1970
    await painted(store, 2, 3.0, user_id=OMAR)
    clock.now += 8 * DAY
    await painted(store, 3, 4.5)
    await painted(store, 4, 1.0, model="wide")
    clock.now += 12 * DAY
    await painted(store, 5, 7.0)  # on 1 February
    assert not await store.device_time.fold(before=date(1970, 1, 31))
    by_server = await by(store, Grouping.SERVER, Grouping.MODEL)
    assert [await store.device_time.fold(before=date(1970, 2, 28)) for _ in range(3)] == [True, True, False]
    assert await by(store, Grouping.SERVER, Grouping.MODEL) == by_server
    assert await by(store, Grouping.DAY, Grouping.PERSON) == {
        ("1970-01", 0): (10.5, 4),
        ("1970-02-01", MINA): (7.0, 1),
    }


@pytest.mark.parametrize(
    ("since", "until", "counted"),
    [
        (None, date(1970, 1, 31), 2.0),
        (date(1970, 1, 1), None, 9.0),
        (date(1970, 1, 1), date(1970, 1, 31), 2.0),
        (date(1970, 1, 2), None, 7.0),
        (None, date(1970, 1, 30), 0.0),
        (date(1970, 2, 1), date(1970, 2, 1), 7.0),
    ],
)
async def test_an_old_month_counts_where_all_its_days_are_asked_for(
    store: Store, clock: Clock, since: date | None, until: date | None, counted: float
) -> None:
    await painted(store, 1, 2.0)
    clock.now += 20 * DAY
    await painted(store, 2, 7.0)
    assert await store.device_time.fold(before=date(1970, 2, 1))
    assert sum(each.seconds for each in await store.device_time.sums([], since=since, until=until)) == counted


async def test_the_time_is_summed_by_what_is_asked(store: Store, clock: Clock) -> None:
    await painted(store, 1, 2.0)
    await painted(store, 2, 3.0, user_id=OMAR)
    clock.now += DAY
    await painted(store, 3, 4.5, model="wide")
    assert await by(store, Grouping.PERSON) == {(MINA,): (6.5, 2), (OMAR,): (3.0, 1)}
    assert await by(store, Grouping.MODEL) == {("demo",): (5.0, 2), ("wide",): (4.5, 1)}
    assert await by(store, Grouping.SERVER) == {(HERE,): (9.5, 3)}
    assert await by(store, Grouping.DAY, Grouping.PERSON) == {
        ("1970-01-12", MINA): (2.0, 1),
        ("1970-01-12", OMAR): (3.0, 1),
        ("1970-01-13", MINA): (4.5, 1),
    }
    second = date(1970, 1, 13)
    assert [each.seconds for each in await store.device_time.sums([], since=second)] == [4.5]
    assert [each.seconds for each in await store.device_time.sums([], until=date(1970, 1, 12))] == [5.0]


async def test_classes_of_accelerators_are_kept_apart(store: Store) -> None:
    await painted(store, 1, 2.0)
    await painted(store, 2, 3.0, accelerator="NVIDIA H100")
    found = await store.device_time.sums([Grouping.PERSON])
    assert [(each.accelerator, each.seconds) for each in found] == [("NVIDIA H100", 3.0), ("cpu", 2.0)]
    assert await by(store, Grouping.ACCELERATOR) == {("cpu",): (2.0, 1), ("NVIDIA H100",): (3.0, 1)}


async def test_every_attempt_counts_and_the_picture_once(store: Store, clock: Clock) -> None:
    first = await claimed(store, 1)
    clock.now += 2 * TTL
    assert await store.leases.expire() == 1
    (second,) = await store.leases.claim("another", limit=1, ttl=TTL)
    await store.leases.complete(second, artifact="aa/aa.png", seconds=1.0, spent=spent(5.0))
    with pytest.raises(StaleLease):  # the first worker has painted it too
        await store.leases.complete(first, artifact="aa/aa.png", seconds=1.0, spent=spent(4.0))
    assert await by(store, Grouping.PERSON) == {(MINA,): (5.0, 1)}
    assert await store.device_time.add(first, spent(4.0))
    assert await by(store, Grouping.PERSON) == {(MINA,): (9.0, 1)}


async def test_an_end_whose_answer_was_lost_counts_once(store: Store) -> None:
    claim = await painted(store, 1, 5.0)
    assert not await store.device_time.add(claim, spent(5.0))
    assert await by(store, Grouping.PERSON) == {(MINA,): (5.0, 1)}


async def test_an_attempt_given_back_or_abandoned_counts_once(store: Store) -> None:
    given_back = await claimed(store, 1)
    await store.leases.give_back(given_back, spent=spent(2.0))
    assert not await store.device_time.add(given_back, spent(2.0))  # repeated, because the answer was lost
    (abandoned,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    for _ in range(2):
        await store.leases.abandon(abandoned, spent=spent(4.0))
    assert await by(store, Grouping.PERSON) == {(MINA,): (6.0, 0)}


async def test_the_time_of_a_late_worker_counts_after_its_image_was_taken_back(
    store: Store, clock: Clock
) -> None:
    await store.jobs.enqueue(recipe(), origin(1, user_id=MINA))
    for _ in range(2):
        (claim,) = await store.leases.claim("late", limit=1, ttl=TTL)
        await store.leases.heartbeat({claim: 1}, ttl=TTL)
        clock.now += 2 * TTL
        assert await store.leases.expire() == 1  # the second expiry fails the image
        assert await store.device_time.add(claim, spent(3.0))
    assert (await store.jobs.get(claim.job_id)).state is State.FAILED
    assert await by(store, Grouping.PERSON) == {(MINA,): (6.0, 0)}


async def test_attempts_without_a_picture_count(store: Store) -> None:
    await store.leases.fail(await claimed(store, 1), failure="painting_failed", spent=spent(1.0))
    given_back = await claimed(store, 2)
    await store.leases.give_back(given_back, spent=spent(2.0))
    (again,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    await store.leases.abandon(again, spent=spent(4.0))
    (last,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    await store.jobs.cancel(last.job_id, user_id=None)
    assert await store.device_time.add(last, spent(8.0))
    await store.device_time.add_repaint(last.job_id, "demo", spent(16.0))
    assert await by(store, Grouping.PERSON) == {(MINA,): (31.0, 0)}


async def test_the_sums_outlive_jobs_and_an_erased_person_is_a_number(store: Store, clock: Clock) -> None:
    claim = await painted(store, 1, 5.0)
    held = await claimed(store, 2)
    for delivery in await undelivered(store, limit=9):
        await store.deliveries.mark_delivered(delivery, outcome="edited", message_id=9)
    clock.now += 400 * DAY
    forgotten, _ = await store.retention.forget_jobs(before=clock.now - 365 * DAY, limit=9)
    assert forgotten == 1
    assert await by(store, Grouping.PERSON) == {(MINA,): (5.0, 1)}

    await store.erasure.erase([claim.job_id, held.job_id])
    await store.erasure.erase_acts(MINA)
    ((number,),) = await by(store, Grouping.PERSON)
    assert isinstance(number, int)
    assert number < 0
    assert await store.device_time.add(held, spent(1.0))  # the image was being painted during the erasure
    assert (await by(store, Grouping.PERSON))[0,] == (1.0, 0)
    assert await by(store, Grouping.SERVER) == {(HERE,): (6.0, 1)}


async def test_ends_of_several_workers_at_once_are_all_counted(store: Store, open_store: OpenStore) -> None:
    other = await open_store()
    claims = [await claimed(store, number) for number in range(1, 9)]
    await asyncio.gather(
        *(
            (store, other)[number % 2].leases.complete(
                claim, artifact=f"aa/{number}.png", seconds=1.0, spent=spent(1.0)
            )
            for number, claim in enumerate(claims)
        )
    )
    assert await store.device_time.sums([]) == [Sum(group=(), accelerator="cpu", seconds=8.0, pictures=8)]
