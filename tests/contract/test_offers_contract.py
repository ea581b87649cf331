"""Images whose model or size is no longer offered, on every database."""

import asyncio
from dataclasses import replace

from recipes import ORIGIN, RECIPE, origin, recipe
from stores import TTL, Clock, OpenStore, undelivered

from bot.domain.jobs import Job, State
from bot.store import Store
from sdjax_engine.request import Int8, Offer, Sampler

GRACE = 600.0
WIDE = recipe(width=256)


async def states(store: Store, *jobs: Job) -> list[State]:
    return [(await store.jobs.get(job.id)).state for job in jobs]


async def test_images_of_unoffered_lanes_fail_after_the_grace_and_others_wait(
    store: Store, clock: Clock
) -> None:
    kept, gone = await store.jobs.enqueue(RECIPE, origin(1)), await store.jobs.enqueue(WIDE, origin(2))
    clock.now += GRACE
    await store.offers.announce("worker", lanes=[RECIPE.lane], seats=1, ttl=TTL)
    assert await store.offers.unoffered() == [str(WIDE.lane)]
    assert await store.offers.fail_unoffered(grace=GRACE) == 1
    assert await states(store, kept, gone) == [State.WAITING, State.FAILED]
    assert (await store.jobs.get(gone.id)).images[0].failure == "not_offered"
    assert [delivery.job.id for delivery in await undelivered(store, limit=9)] == [gone.id]
    assert await store.offers.unoffered() == []


async def test_a_look_for_unoffered_images_needs_no_lock_where_there_are_none(
    store: Store, open_store: OpenStore, clock: Clock
) -> None:
    other = await open_store()
    await store.jobs.enqueue(RECIPE, ORIGIN)
    clock.now += GRACE
    await store.offers.announce("worker", lanes=[RECIPE.lane], seats=1, ttl=TTL)
    async with store.shared.database.write(), asyncio.timeout(5):  # SQLite has no second writer meanwhile
        assert await other.offers.fail_unoffered(grace=GRACE) == 0


async def test_a_new_request_can_wait_for_a_worker_that_has_not_started(store: Store, clock: Clock) -> None:
    job = await store.jobs.enqueue(RECIPE, ORIGIN)
    clock.now += GRACE - 1
    assert await store.offers.fail_unoffered(grace=GRACE) == 0
    assert await states(store, job) == [State.WAITING]


async def test_a_worker_that_begins_no_more_images_promises_no_time(store: Store, clock: Clock) -> None:
    job = await store.jobs.enqueue(RECIPE, ORIGIN)
    assert not await store.offers.is_anything_offered()
    assert (await store.positions.of(job.id)).is_unserved
    await store.offers.announce("worker", lanes=[RECIPE.lane], seats=1, ttl=TTL)
    assert await store.offers.is_anything_offered()
    assert not (await store.positions.of(job.id)).is_unserved
    await store.offers.withdraw("worker")
    assert not await store.offers.is_anything_offered()
    assert (await store.positions.of(job.id)).is_unserved
    clock.now += GRACE - 1
    assert await store.offers.fail_unoffered(grace=GRACE) == 0  # another worker may be starting


async def test_a_worker_that_is_away_has_the_grace_to_come_back(store: Store, clock: Clock) -> None:
    job = await store.jobs.enqueue(RECIPE, ORIGIN)
    await store.offers.announce("away", lanes=[RECIPE.lane], seats=1, ttl=TTL)
    clock.now += TTL + GRACE - 1
    assert await store.offers.fail_unoffered(grace=GRACE) == 0
    clock.now += 1
    assert await store.offers.fail_unoffered(grace=GRACE) == 1
    assert await states(store, job) == [State.FAILED]


async def test_a_worker_that_returns_with_fewer_lanes_withdraws_the_others(
    store: Store, clock: Clock
) -> None:
    job = await store.jobs.enqueue(WIDE, ORIGIN)
    await store.offers.announce("worker", lanes=[RECIPE.lane, WIDE.lane], seats=1, ttl=TTL)
    clock.now += GRACE
    assert await store.offers.fail_unoffered(grace=GRACE) == 0
    await store.offers.announce("worker", lanes=[RECIPE.lane], seats=1, ttl=TTL)
    assert await store.offers.fail_unoffered(grace=GRACE) == 1
    assert await states(store, job) == [State.FAILED]


async def test_running_and_ended_images_do_not_fail_as_unoffered(store: Store, clock: Clock) -> None:
    job = await store.jobs.enqueue(recipe(variants=3), ORIGIN)
    done, running = await store.leases.claim("worker", limit=2, ttl=TTL)
    await store.leases.complete(done, artifact="aa/aa.png", seconds=1.0)
    clock.now += GRACE
    assert await store.offers.fail_unoffered(grace=GRACE) == 1
    left = [image.state for image in (await store.jobs.get(job.id)).images]
    assert left == [State.DONE, State.RUNNING, State.FAILED]
    assert (await store.leases.complete(running, artifact="aa/ab.png", seconds=1.0)).state is State.DONE


async def test_an_image_that_fails_as_unoffered_is_refunded(store: Store, clock: Clock) -> None:
    await store.jobs.enqueue(recipe(width=256, variants=9), origin(1, user_id=1))
    clock.now += GRACE
    await store.offers.fail_unoffered(grace=GRACE)
    first = await store.jobs.enqueue(RECIPE, origin(2, user_id=1))
    await store.jobs.enqueue(RECIPE, origin(3, user_id=2))
    assert (await store.leases.claim("worker", limit=1, ttl=TTL))[0].job_id == first.id


async def test_two_simultaneous_checks_fail_each_image_once(
    store: Store, open_store: OpenStore, clock: Clock
) -> None:
    for number in range(6):
        await store.jobs.enqueue(recipe(variants=3), origin(number, user_id=number % 2))
    other = await open_store()
    clock.now += GRACE
    failed = await asyncio.gather(*(one.offers.fail_unoffered(grace=GRACE) for one in (store, other)))
    assert sum(failed) == 18
    assert (await store.jobs.counts())[State.FAILED] == 6


async def test_an_offer_is_read_as_it_was_last_published(store: Store, open_store: OpenStore) -> None:
    offer = Offer(
        model="tiny",
        sizes=((64, 64), (128, 64)),
        num_inference_steps=4,
        guidance_scale=5.0,
        sampler=Sampler.EULER,
        loras=("ink",),
        samplers=(Sampler.DDIM, Sampler.EULER),
        licence="OpenRAIL",
        licence_link="https://example.org/",
        guidance_interval=(0.0, 0.6),
        clip_skip=1,
        most_skipped=10,
        usual_layer=2,
        embeddings=("cat",),
        int8=(Int8.TEXT_ENCODER,),
    )
    await store.offers.publish([offer, replace(offer, model="other")])
    await store.offers.publish([replace(offer, sizes=((64, 64),))])
    front = await open_store()
    assert await front.offers.published(["tiny", "unknown"]) == {"tiny": replace(offer, sizes=((64, 64),))}
