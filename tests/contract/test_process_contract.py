"""The contract of the processes that share a queue, on every database."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from recipes import RECIPE, origin
from stores import TTL, Clock, OpenStore, undelivered

from bot.domain.errors import NameTaken
from bot.domain.holds import Cause, Hold
from bot.domain.jobs import Delivery, Job
from bot.membership.processes import Process, Processes
from bot.store import Store

LIFE = 20.0
WEB = Process(name="web-1", secret="a", role="front", machine="web", folder="s3://pictures")
OTHER = replace(WEB, name="web-2", secret="b")


async def painted(store: Store, number: int, *, front: str | None) -> Job:
    """Return a painted job of `front`."""
    await store.jobs.enqueue(RECIPE, origin(number, user_id=number, front=front))
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    return await store.leases.complete(claim, artifact="aa/aa.png", seconds=2.0)


def ids(deliveries: list[Delivery]) -> list[str]:
    return [delivery.job.id for delivery in deliveries]


async def test_a_process_lives_until_its_ttl_has_passed_since_its_last_heartbeat(
    store: Store, clock: Clock
) -> None:
    assert await Processes(store.shared).join(WEB, ttl=LIFE) == []
    clock.now += LIFE / 2
    assert await Processes(store.shared).join(OTHER, ttl=LIFE) == []
    clock.now += LIFE / 2
    assert [process.name for process in await Processes(store.shared).living()] == ["web-2"]
    assert await Processes(store.shared).beat(OTHER, ttl=LIFE)
    await Processes(store.shared).leave(OTHER)
    assert await Processes(store.shared).living() == []
    assert not await Processes(store.shared).beat(OTHER, ttl=LIFE)


async def test_a_living_process_s_name_is_taken_for_another_machine_but_not_for_its_own_restart(
    store: Store, clock: Clock
) -> None:
    stranger = replace(WEB, secret="of another machine")
    await Processes(store.shared).join(WEB, ttl=LIFE)
    with pytest.raises(NameTaken, match="web-1"):
        await Processes(store.shared).join(stranger, ttl=LIFE)
    assert await Processes(store.shared).join(WEB, ttl=LIFE) == []
    clock.now += LIFE
    assert await Processes(store.shared).join(stranger, ttl=LIFE) == []
    assert not await Processes(store.shared).beat(WEB, ttl=LIFE)


async def test_a_process_with_another_folder_cannot_join(store: Store, clock: Clock) -> None:
    await Processes(store.shared).join(WEB, ttl=LIFE)
    elsewhere = replace(OTHER, folder="folder 5eed")
    (other,) = await Processes(store.shared).join(elsewhere, ttl=LIFE)
    assert (other.name, other.folder) == ("web-1", "s3://pictures")
    assert not await Processes(store.shared).beat(elsewhere, ttl=LIFE)
    clock.now += LIFE
    assert await Processes(store.shared).join(elsewhere, ttl=LIFE) == []


async def test_of_many_processes_that_join_at_once_all_members_have_one_folder(
    open_store: OpenStore,
) -> None:
    stores = await asyncio.gather(*(open_store() for _ in range(6)))
    found = await asyncio.gather(
        *(
            Processes(store.shared).join(
                replace(WEB, name=f"web-{number}", folder=f"folder {number % 2}"), ttl=LIFE
            )
            for number, store in enumerate(stores)
        )
    )
    assert len({process.folder for process in await Processes(stores[0].shared).living()}) == 1
    assert sum(others == [] for others in found) == 3


async def test_only_the_front_of_a_job_claims_its_result(store: Store, open_store: OpenStore) -> None:
    other = await open_store()
    mine, theirs = await painted(store, 1, front="web-1"), await painted(store, 2, front="web-2")
    assert ids(await store.deliveries.claim("web-1", limit=9)) == [mine.id]
    assert ids(await other.deliveries.claim("web-2", limit=9)) == [theirs.id]


async def test_each_result_without_a_front_is_claimed_by_one_of_several_fronts(
    store: Store, open_store: OpenStore
) -> None:
    jobs = [await painted(store, number, front=None) for number in range(12)]
    stores = [await open_store() for _ in range(4)]
    claimed = await asyncio.gather(
        *(one.deliveries.claim(f"web-{number}", limit=4) for number, one in enumerate(stores))
    )
    brought = [job_id for deliveries in claimed for job_id in ids(deliveries)]
    assert len(brought) == len(set(brought))
    for number, one in enumerate(stores):  # results that no front got are claimed now
        held = [delivery.id for delivery in claimed[number]]
        brought += ids(await one.deliveries.claim(f"web-{number}", limit=12, held=held))
    assert sorted(brought) == sorted(job.id for job in jobs)


async def test_a_held_delivery_is_claimed_again_only_after_a_restart(store: Store) -> None:
    await painted(store, 1, front="web-1")
    (delivery,) = await store.deliveries.claim("web-1", limit=9)
    assert await store.deliveries.claim("web-1", limit=9, held=[delivery.id]) == []
    (again,) = await store.deliveries.claim("web-1", limit=9)
    assert (again.id, again.attempts) == (delivery.id, 0)
    await store.deliveries.mark_delivered(delivery, outcome="edited", message_id=1)  # with the stale token
    assert [each.id for each in await undelivered(store, limit=9)] == [delivery.id]
    await store.deliveries.mark_delivered(again, outcome="edited", message_id=2)
    assert await undelivered(store, limit=9) == []


async def test_another_front_takes_a_dead_fronts_delivery_and_its_stale_token_changes_nothing(
    store: Store, clock: Clock
) -> None:
    await Processes(store.shared).join(WEB, ttl=LIFE)
    job = await painted(store, 1, front="web-1")
    (late,) = await store.deliveries.claim("web-1", limit=9)
    assert await Processes(store.shared).release_dead() == []
    assert await store.deliveries.claim("web-2", limit=9) == []
    clock.now += LIFE
    assert await Processes(store.shared).release_dead() == ["web-1"]
    (taken,) = await store.deliveries.claim("web-2", limit=9)
    assert (taken.job.id, taken.job.origin.front) == (job.id, "web-2")
    await store.deliveries.retry(late, at=clock.now + 500)
    await store.deliveries.mark_delivered(late, outcome="gave_up")
    assert [each.attempts for each in await undelivered(store, limit=9)] == [0]
    await store.deliveries.mark_delivered(taken, outcome="edited", message_id=7)
    assert (await store.jobs.get(job.id)).message_id == 7
    assert await undelivered(store, limit=9) == []


async def test_a_front_that_leaves_releases_its_unfinished_jobs_only(store: Store) -> None:
    await Processes(store.shared).join(WEB, ttl=LIFE)
    done = await painted(store, 1, front="web-1")
    (delivery,) = await store.deliveries.claim("web-1", limit=9)
    await store.deliveries.mark_delivered(delivery, outcome="edited", message_id=1)
    undelivered = await painted(store, 2, front="web-1")
    waiting = await store.jobs.enqueue(RECIPE, origin(3, front="web-1"))
    await Processes(store.shared).leave(WEB)
    fronts = [(await store.jobs.get(job.id)).origin.front for job in (done, undelivered, waiting)]
    assert fronts == ["web-1", None, None]
    assert [job.id for job in await store.jobs.active(front="web-2")] == [waiting.id]
    assert await store.deliveries.adopt("web-2", [done.id, waiting.id]) == {waiting.id}
    assert await store.jobs.active(front="web-3") == []


async def test_the_moderators_message_of_a_front_that_leaves_is_free(store: Store) -> None:
    await Processes(store.shared).join(WEB, ttl=LIFE)
    await store.jobs.enqueue(RECIPE, origin(1, guild_id=21), hold=Hold(cause=Cause.MODE))
    (claim,) = await store.leases.claim("worker", limit=9, ttl=TTL)
    await store.leases.complete(claim, artifact="aa/held.png", seconds=1.0)
    (message,) = await store.review_messages.claim("web-1", limit=9)
    assert await store.review_messages.claim("web-2", limit=9) == []
    await Processes(store.shared).leave(WEB)
    assert [each.id for each in await store.review_messages.claim("web-2", limit=9)] == [message.id]


async def test_an_unanswered_retry_is_due_again_for_the_same_front(store: Store, clock: Clock) -> None:
    await painted(store, 1, front="web-1")
    (delivery,) = await store.deliveries.claim("web-1", limit=9)
    await store.deliveries.retry(delivery, at=clock.now + 10)
    assert await store.deliveries.claim("web-1", limit=9) == []
    clock.now += 10
    (again,) = await store.deliveries.claim("web-1", limit=9)
    assert (again.id, again.attempts) == (delivery.id, 1)
    assert again.fencing_token > delivery.fencing_token
