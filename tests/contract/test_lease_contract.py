"""The contract of claims and leases, on every database."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest
from recipes import ORIGIN, RECIPE, origin, recipe
from stores import TTL, Clock, OpenStore, run_seconds, undelivered

from bot.domain.errors import StaleLease
from bot.domain.jobs import Claim, Notes, State
from bot.store import Store
from bot.store.queue.leases import FURTHEST_LEASE
from sdjax_engine.request import PromptFacts

WIDE = recipe(width=256)


async def claim_one(store: Store, worker: str = "worker", *, ttl: float = TTL) -> Claim:
    (claim,) = await store.leases.claim(worker, limit=1, ttl=ttl)
    return claim


async def test_a_claim_has_the_recipe_of_its_image(store: Store, clock: Clock) -> None:
    job = await store.jobs.enqueue(recipe(variants=2), ORIGIN)
    claims = await store.leases.claim("worker", limit=5, ttl=TTL)
    assert [claim.request for claim in claims] == [job.recipe.request(0), job.recipe.request(1)]
    assert {(claim.job_id, claim.expires_at) for claim in claims} == {(job.id, clock.now + TTL)}
    running = await store.jobs.get(job.id)
    assert (running.state, running.started_at) == (State.RUNNING, clock.now)


async def test_claims_are_in_fair_order_over_all_lanes(store: Store) -> None:
    for number, asked in enumerate([RECIPE, WIDE, RECIPE, WIDE], start=1):
        await store.jobs.enqueue(asked, origin(number, user_id=number))
    first = await store.leases.claim("worker", limit=3, ttl=TTL)
    assert [claim.request.lane for claim in first] == [RECIPE.lane, RECIPE.lane, WIDE.lane]
    (last,) = await store.leases.claim("worker", limit=3, ttl=TTL)
    assert last.request.lane == WIDE.lane


async def test_each_lane_gets_images_up_to_its_limit(store: Store) -> None:
    await store.jobs.enqueue(recipe(variants=9), origin(1, user_id=1))
    await store.jobs.enqueue(replace(WIDE, variants=2), origin(2, user_id=1))
    await store.jobs.enqueue(recipe(width=512), origin(3, user_id=1))
    claims = await store.leases.claim("worker", limit={RECIPE.lane: 4, WIDE.lane: 3}, ttl=TTL)
    assert [claim.request.lane for claim in claims] == [RECIPE.lane] * 4 + [WIDE.lane] * 2
    assert await store.leases.claim("worker", limit={RECIPE.lane: 0, WIDE.lane: 3}, ttl=TTL) == []
    assert len(await store.leases.claim("worker", limit={RECIPE.lane: 1, WIDE.lane: 3}, ttl=TTL)) == 1


async def test_an_image_of_a_full_lane_keeps_its_place(store: Store) -> None:
    await store.jobs.enqueue(recipe(variants=9), origin(1, user_id=1))
    await store.jobs.enqueue(WIDE, origin(2, user_id=1))
    await store.leases.claim("worker", limit={RECIPE.lane: 2, WIDE.lane: 9}, ttl=TTL)
    late = await store.jobs.enqueue(recipe(variants=3), origin(3, user_id=2))
    claims = await store.leases.claim("worker", limit={RECIPE.lane: 5, WIDE.lane: 9}, ttl=TTL)
    assert [claim.job_id for claim in claims].count(late.id) == 2


async def test_a_worker_gets_only_lanes_it_offers(store: Store) -> None:
    await store.jobs.enqueue(RECIPE, origin(1, user_id=1))
    await store.jobs.enqueue(WIDE, origin(2, user_id=2))
    assert await store.leases.claim("worker", limit={replace(WIDE.lane, model="other"): 9}, ttl=TTL) == []
    (claim,) = await store.leases.claim("worker", limit={WIDE.lane: 9}, ttl=TTL)
    assert claim.request.lane == WIDE.lane


async def test_a_flooding_user_delays_others_by_their_share_only(store: Store) -> None:
    for number in range(10):
        await store.jobs.enqueue(recipe(variants=9), origin(number, user_id=1))
    await store.leases.claim("worker", limit=20, ttl=TTL)
    await store.jobs.enqueue(recipe(variants=4), origin(100, user_id=2))
    users = [claim.job_id for claim in await store.leases.claim("worker", limit=8, ttl=TTL)]
    late = (await store.jobs.by_interaction(100)).id
    assert users.count(late) == 4
    assert late in users[:2]


async def test_a_user_of_twice_the_weight_gets_twice_as_much(store: Store) -> None:
    for number in range(4):
        await store.jobs.enqueue(recipe(variants=9), origin(number, user_id=1), weight=1.0)
        await store.jobs.enqueue(recipe(variants=9), origin(10 + number, user_id=2), weight=2.0)
    claims = await store.leases.claim("worker", limit=30, ttl=TTL)
    heavy = [claim for claim in claims if (await store.jobs.get(claim.job_id)).origin.user_id == 2]
    assert len(heavy) == 20


async def test_idle_time_earns_no_credit(store: Store) -> None:
    await store.jobs.enqueue(RECIPE, origin(1, user_id=2))
    for number in range(4):
        await store.jobs.enqueue(recipe(variants=9), origin(10 + number, user_id=1))
    await store.leases.claim("worker", limit=30, ttl=TTL)
    await store.jobs.enqueue(recipe(variants=9), origin(2, user_id=2))
    late = (await store.jobs.by_interaction(2)).id
    claims = await store.leases.claim("worker", limit=6, ttl=TTL)
    assert [claim.job_id for claim in claims].count(late) == 3


async def test_an_image_cancelled_before_it_ran_is_refunded(store: Store) -> None:
    regretted = await store.jobs.enqueue(recipe(variants=9), origin(1, user_id=1))
    await store.jobs.cancel(regretted.id, user_id=1)
    await store.jobs.enqueue(recipe(variants=2), origin(2, user_id=2))
    wanted = await store.jobs.enqueue(RECIPE, origin(3, user_id=1))
    claims = await store.leases.claim("worker", limit=2, ttl=TTL)
    assert wanted.id in [claim.job_id for claim in claims]


async def test_the_last_images_of_a_job_that_end_together_end_the_job_once(
    store: Store, open_store: OpenStore
) -> None:
    job = await store.jobs.enqueue(recipe(variants=9), ORIGIN)
    claims = await store.leases.claim("worker", limit=9, ttl=TTL)
    other = await open_store()
    ends = [
        (store, other)[number % 2].leases.complete(claim, artifact=f"aa/{number}.png", seconds=1.0)
        for number, claim in enumerate(claims)
    ]
    seen = await asyncio.gather(*ends)
    assert [job.state for job in seen].count(State.DONE) == 1
    assert (await store.jobs.get(job.id)).state is State.DONE
    assert len(await undelivered(store, limit=10)) == 1


async def test_a_heartbeat_keeps_the_lease_and_stores_the_step(store: Store, clock: Clock) -> None:
    await store.jobs.enqueue(RECIPE, ORIGIN)
    claim = await claim_one(store)
    clock.now += TTL - 1
    assert await store.leases.heartbeat({claim: 6}, ttl=TTL) == set()
    clock.now += TTL - 1
    assert await store.leases.expire() == 0
    (image,) = (await store.jobs.get(claim.job_id)).images
    assert (image.step, image.state) == (6, State.RUNNING)


async def test_a_heartbeat_stores_and_clears_the_reason_of_a_restart(store: Store) -> None:
    await store.jobs.enqueue(recipe(variants=2), ORIGIN)
    claims = await store.leases.claim("worker", limit=2, ttl=TTL)

    async def told(**troubles: Mapping[Claim, str]) -> list[str | None]:
        await store.leases.heartbeat(dict.fromkeys(claims, 1), ttl=TTL, **troubles)
        return [image.trouble for image in (await store.jobs.get(claims[0].job_id)).images]

    assert await told(troubles={claims[1]: "stuck"}) == [None, "stuck"]
    assert await told() == [None, None]
    await told(troubles={claims[0]: "failed"})
    await store.leases.give_back(claims[0])
    await claim_one(store)
    assert (await store.jobs.get(claims[0].job_id)).images[0].trouble is None


async def test_a_heartbeat_returns_lost_and_cancelled_images(store: Store, clock: Clock) -> None:
    for number in range(3):
        await store.jobs.enqueue(RECIPE, origin(number, user_id=number))
    kept, cancelled, lost = await store.leases.claim("worker", limit=3, ttl=TTL)
    await store.jobs.cancel(cancelled.job_id, user_id=None)
    clock.now += TTL - 1
    await store.leases.heartbeat({kept: 1}, ttl=TTL)
    clock.now += 1
    assert await store.leases.expire() == 1
    await claim_one(store, "another")
    assert await store.leases.heartbeat({kept: 2, cancelled: 2, lost: 2}, ttl=TTL) == {
        cancelled.image_id,
        lost.image_id,
    }


async def test_the_prompt_notes_of_painting_are_kept_with_each_image(store: Store) -> None:
    await store.jobs.enqueue(recipe(variants=3), ORIGIN)
    long, plain, untold = await store.leases.claim("worker", limit=3, ttl=TTL)
    facts = PromptFacts(tokens=230, limit=225, cut="and a 별 “star”", unknown=("자전거", "riding"))
    notes = Notes(prompt=facts, negative_prompt=PromptFacts(tokens=0, limit=225))
    await store.leases.complete(long, artifact="aa/aa.png", seconds=1.0, notes=notes)
    await store.leases.complete(plain, artifact="bb/bb.png", seconds=1.0, notes=Notes())
    job = await store.leases.complete(untold, artifact="cc/cc.png", seconds=1.0)
    assert [image.notes for image in job.images] == [notes, Notes(), Notes()]
    assert (await store.jobs.get(job.id)).images == job.images


async def test_an_image_that_breaks_the_engine_twice_fails(store: Store) -> None:
    await store.jobs.enqueue(recipe(variants=2), ORIGIN)
    claim, other = await store.leases.claim("worker", limit=2, ttl=TTL)
    await store.leases.abandon(claim)
    assert (await store.jobs.get(claim.job_id)).images[0].state is State.WAITING
    again = await claim_one(store)
    await store.leases.abandon(claim)  # another claim has the lease now
    await store.leases.abandon(again)
    await store.leases.give_back(other)
    failed, waiting = (await store.jobs.get(claim.job_id)).images
    assert (failed.state, failed.failure) == (State.FAILED, "worker_died")
    assert waiting.state is State.WAITING


async def test_a_job_with_a_failed_image_delivers_the_others_once_all_have_ended(
    store: Store, clock: Clock
) -> None:
    await store.jobs.enqueue(recipe(variants=2), ORIGIN)
    bad, good = await store.leases.claim("worker", limit=2, ttl=TTL)
    await store.leases.fail(bad, failure="nan")
    assert await undelivered(store, limit=10) == []
    clock.now += 3
    job = await store.leases.complete(good, artifact="aa/aa.png", seconds=1.0)
    assert (job.state, job.finished_at) == (State.DONE, clock.now)
    assert [delivery.job for delivery in await undelivered(store, limit=10)] == [job]
    assert await store.jobs.active() == []
    assert [(image.state, image.artifact, image.failure) for image in job.images] == [
        (State.FAILED, None, "nan"),
        (State.DONE, "aa/aa.png", None),
    ]


async def test_a_job_whose_images_all_failed_is_failed_and_delivered(store: Store) -> None:
    await store.jobs.enqueue(RECIPE, ORIGIN)
    job = await store.leases.fail(await claim_one(store), failure="nan")
    assert job.state is State.FAILED
    assert [delivery.job for delivery in await undelivered(store, limit=10)] == [job]


async def test_a_stale_token_changes_nothing(store: Store, clock: Clock) -> None:
    await store.jobs.enqueue(RECIPE, ORIGIN)
    stale = await claim_one(store, "slow")
    clock.now += TTL
    await store.leases.expire()
    fresh = await claim_one(store, "quick")
    assert fresh.image_id == stale.image_id
    assert fresh.fencing_token > stale.fencing_token
    before = await store.jobs.get(stale.job_id)
    for verb in (
        store.leases.complete(stale, artifact="aa/aa.png", seconds=1.0),
        store.leases.fail(stale, failure="nan"),
        store.leases.give_back(stale),
    ):
        with pytest.raises(StaleLease):
            await verb
    assert await store.leases.heartbeat({stale: 9}, ttl=TTL) == {stale.image_id}
    assert await store.jobs.get(stale.job_id) == before
    assert await run_seconds(store, RECIPE.lane) is None
    assert (await store.leases.complete(fresh, artifact="bb/bb.png", seconds=1.0)).state is State.DONE


async def test_a_final_state_never_changes(store: Store, clock: Clock) -> None:
    for number in range(3):
        await store.jobs.enqueue(RECIPE, origin(number, user_id=number))
    done, failed, cancelled = await store.leases.claim("worker", limit=3, ttl=TTL)
    await store.leases.complete(done, artifact="aa/aa.png", seconds=1.0)
    await store.leases.fail(failed, failure="nan")
    await store.jobs.cancel(cancelled.job_id, user_id=None)
    ended = [await store.jobs.get(claim.job_id) for claim in (done, failed, cancelled)]
    clock.now += 10 * TTL
    for claim in (done, failed, cancelled):
        with pytest.raises(StaleLease):
            await store.leases.complete(claim, artifact="bb/bb.png", seconds=1.0)
        with pytest.raises(StaleLease):
            await store.leases.fail(claim, failure="other")
        with pytest.raises(StaleLease):
            await store.leases.give_back(claim)
        await store.jobs.cancel(claim.job_id, user_id=None)
    assert await store.leases.expire() + await store.leases.recover("worker") == 0
    assert [await store.jobs.get(claim.job_id) for claim in (done, failed, cancelled)] == ended
    assert len(await undelivered(store, limit=10)) == 3


async def test_an_image_given_back_keeps_its_place(store: Store) -> None:
    await store.jobs.enqueue(recipe(variants=3), ORIGIN)
    claim = await claim_one(store)
    await store.leases.heartbeat({claim: 5}, ttl=TTL)
    await store.leases.give_back(claim)
    given_back = await store.jobs.get(claim.job_id)
    assert (given_back.state, given_back.images[0].step) == (State.WAITING, 0)
    again = await claim_one(store)
    assert again.image_id == claim.image_id
    assert again.fencing_token > claim.fencing_token


async def test_an_expired_lease_goes_back_to_its_place(store: Store, clock: Clock) -> None:
    await store.jobs.enqueue(recipe(variants=2), ORIGIN)
    claim = await claim_one(store)
    await store.leases.heartbeat({claim: 5}, ttl=TTL)
    clock.now += TTL
    assert await store.leases.expire() == 1
    image = (await store.jobs.get(claim.job_id)).images[0]
    assert (image.state, image.step) == (State.WAITING, 0)
    assert (await claim_one(store)).image_id == claim.image_id


async def failures_after_deaths(store: Store, deaths: int, *, begun: bool) -> list[str | None]:
    """Return the failure of a new job's only image after `deaths` deaths of its worker."""
    job = await store.jobs.enqueue(RECIPE, ORIGIN)
    for _ in range(deaths):
        claim = await claim_one(store)
        await store.leases.heartbeat({claim: 0}, ttl=TTL, begun=[claim] if begun else [])
        assert await store.leases.recover("worker") == 1
    return [image.failure for image in (await store.jobs.get(job.id)).images]


async def test_an_image_that_killed_two_workers_fails(store: Store) -> None:
    assert await failures_after_deaths(store, 2, begun=True) == ["worker_died"]
    assert await store.leases.claim("worker", limit=1, ttl=TTL) == []
    (delivery,) = await undelivered(store, limit=10)
    assert delivery.job.state is State.FAILED


async def test_a_workers_death_counts_only_for_images_that_the_devices_had_begun(store: Store) -> None:
    assert await failures_after_deaths(store, 3, begun=False) == [None]
    assert (await store.leases.give_back(await claim_one(store))) is None


async def test_an_image_that_kills_workers_unheard_is_not_retried_for_ever(store: Store) -> None:
    assert await failures_after_deaths(store, 4, begun=False) == ["worker_died"]


async def test_each_lease_starts_as_not_begun(store: Store) -> None:
    await failures_after_deaths(store, 1, begun=True)
    assert (await store.leases.recover("worker")) == 0
    claim = await claim_one(store)
    assert await store.leases.recover("worker") == 1
    assert (await store.jobs.get(claim.job_id)).state is State.WAITING


async def test_giving_back_does_not_count_as_a_death(store: Store) -> None:
    await store.jobs.enqueue(RECIPE, ORIGIN)
    for _ in range(4):
        await store.leases.give_back(await claim_one(store))
    assert (await store.jobs.by_interaction(ORIGIN.interaction_id)).state is State.WAITING


async def test_a_late_picture_is_accepted_before_another_claim(store: Store, clock: Clock) -> None:
    await store.jobs.enqueue(RECIPE, ORIGIN)
    claim = await claim_one(store)
    clock.now += 10 * TTL
    assert (await store.leases.complete(claim, artifact="aa/aa.png", seconds=1.0)).state is State.DONE


async def test_a_restarted_worker_takes_back_only_its_own_images(store: Store) -> None:
    for number in range(2):
        await store.jobs.enqueue(RECIPE, origin(number, user_id=number))
    mine, other = await claim_one(store, "mine"), await claim_one(store, "other")
    assert await store.leases.recover("mine") == 1
    assert (await store.jobs.get(mine.job_id)).state is State.WAITING
    assert (await store.jobs.get(other.job_id)).state is State.RUNNING


async def test_run_times_are_a_moving_mean_of_each_lane(store: Store) -> None:
    await store.jobs.enqueue(recipe(variants=9), ORIGIN)
    assert await run_seconds(store, RECIPE.lane) is None
    claims = await store.leases.claim("worker", limit=9, ttl=TTL)
    await store.leases.complete(claims[0], artifact="aa/aa.png", seconds=2.0)
    assert await run_seconds(store, RECIPE.lane) == pytest.approx(2.0)
    for claim in claims[1:]:
        await store.leases.complete(claim, artifact="aa/aa.png", seconds=4.0)
    # each takes a fifth of the difference away
    assert await run_seconds(store, RECIPE.lane) == pytest.approx(4.0 - 2.0 * 0.8**8)
    assert await run_seconds(store, WIDE.lane) is None


async def test_a_lease_that_ends_too_far_ahead_is_taken_back(store: Store) -> None:
    await store.jobs.enqueue(RECIPE, ORIGIN)
    await claim_one(store, ttl=FURTHEST_LEASE)
    assert await store.leases.expire() == 0
    assert await store.leases.expire(longest=FURTHEST_LEASE - 1) == 1
    await claim_one(store, ttl=FURTHEST_LEASE + 1)
    assert await store.leases.expire() == 1


async def test_a_job_keeps_the_time_of_its_first_start(store: Store, clock: Clock) -> None:
    await store.jobs.enqueue(recipe(variants=2), ORIGIN)
    first = clock.now
    claim = await claim_one(store)
    clock.now += 5
    await claim_one(store)
    assert (await store.jobs.get(claim.job_id)).started_at == first
    await store.leases.complete(claim, artifact="aa/aa.png", seconds=1.0)
    assert (await store.jobs.get(claim.job_id)).started_at == first


async def test_an_abandoned_call_leaves_the_store_usable(store: Store) -> None:
    calls = [asyncio.create_task(store.jobs.enqueue(RECIPE, origin(number))) for number in range(6)]
    for turns, call in enumerate(calls):
        for _ in range(turns * 4):
            await asyncio.sleep(0)
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    async with asyncio.timeout(20):
        job = await store.jobs.enqueue(RECIPE, origin(100))
        assert (await store.jobs.get(job.id)).state is State.WAITING
