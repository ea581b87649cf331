"""Which images have a seat on the devices, on every database."""

from __future__ import annotations

from recipes import origin, recipe
from stores import TTL, Clock

from bot.domain.jobs import Claim
from bot.store import Store
from bot.store.queue.batches import Seated

LANE = "demo:128x128:guided"


async def test_only_images_that_the_devices_work_on_are_in_the_batch(store: Store) -> None:
    assert await store.batches.now() == []
    await store.jobs.enqueue(recipe(variants=2, num_inference_steps=20), origin(1, user_id=11, guild_id=21))
    await store.jobs.enqueue(recipe(num_inference_steps=20), origin(2, user_id=12, guild_id=None))
    claims = await store.leases.claim("worker", limit=3, ttl=TTL)
    assert await store.batches.now() == []
    steps = dict.fromkeys(claims, 0) | {claims[0]: 5}
    await store.leases.heartbeat(steps, ttl=TTL, begun=claims[:2])
    (batch,) = await store.batches.now()
    assert (batch.lane, batch.seats, batch.seconds) == (LANE, 2, None)
    assert sorted(image.left for image in batch.images) == [15, 20]
    await store.leases.complete(claims[0], artifact="aa/aa.png", seconds=2.0)
    (batch,) = await store.batches.now()
    assert len(batch.images) == 1
    assert isinstance(batch.images[0], Seated)
    assert batch.seconds is not None
    assert batch.seconds > 0


async def begin(store: Store, number: int, *, steps: int, width: int = 128, **values: int | None) -> Claim:
    """A claimed image that is on the devices and has made none of its `steps`."""
    await store.jobs.enqueue(recipe(num_inference_steps=steps, width=width), origin(number, **values))
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    await store.leases.heartbeat({claim: 0}, ttl=TTL, begun=[claim])
    return claim


async def test_the_fullest_batch_comes_first_then_the_lanes_in_order(store: Store) -> None:
    for number, width in enumerate((512, 128, 256, 256)):
        await begin(store, number, steps=20, width=width, user_id=number)
    found = await store.batches.now()
    assert [batch.lane.partition(":")[2] for batch in found] == [
        "256x128:guided",
        "128x128:guided",
        "512x128:guided",
    ]


async def test_a_seated_image_names_its_person_and_server_in_the_order_of_the_images(store: Store) -> None:
    await begin(store, 1, steps=20, user_id=11, guild_id=21)
    await begin(store, 2, steps=30, user_id=12, guild_id=None)
    (batch,) = await store.batches.now()
    assert batch.images == (
        Seated(user_id=11, guild_id=21, left=20),
        Seated(user_id=12, guild_id=None, left=30),
    )


async def test_the_seats_are_those_of_the_living_workers_that_offer_the_lane(
    store: Store, clock: Clock
) -> None:
    await begin(store, 1, steps=20)
    lanes = [recipe().lane]
    await store.offers.announce("one", lanes=lanes, seats=4, ttl=TTL)
    await store.offers.announce("two", lanes=[*lanes, recipe(width=256).lane], seats=3, ttl=TTL / 2)
    assert [(batch.seats, batch.seconds) for batch in await store.batches.now()] == [(7, 0.0)]
    clock.now += TTL / 2
    assert [batch.seats for batch in await store.batches.now()] == [4]


async def test_a_full_batch_has_a_free_seat_when_its_quickest_image_ends(store: Store) -> None:
    await store.leases.complete(await begin(store, 1, steps=20), artifact="aa/aa.png", seconds=5.0)
    await begin(store, 2, steps=40, width=256)
    for number, steps in ((3, 30), (4, 12), (5, 20)):
        await begin(store, number, steps=steps, user_id=number)
    batches = {batch.lane: batch for batch in await store.batches.now()}
    assert batches[LANE].seconds == 12 * 0.25
    assert [batch.seconds for lane, batch in batches.items() if lane != LANE] == [None]


async def test_an_image_that_is_stored_while_the_next_has_its_seat_has_none(store: Store) -> None:
    claims = [await begin(store, number, steps=20, user_id=number) for number in range(4)]
    await store.offers.announce("worker", lanes=[LANE], seats=2, ttl=TTL)
    await store.offers.announce("another", lanes=[LANE], seats=1, ttl=TTL)
    await store.leases.heartbeat({claims[0]: 6, claims[1]: 15, claims[3]: 12}, ttl=TTL)
    (batch,) = await store.batches.now()
    assert ([image.user_id for image in batch.images], batch.seats) == ([0, 2], 3)


async def test_the_images_of_a_worker_that_offers_no_seats_have_theirs(store: Store) -> None:
    await begin(store, 1, steps=20)
    await store.offers.announce("worker", lanes=[LANE], seats=0, ttl=TTL)
    (batch,) = await store.batches.now()
    assert (len(batch.images), batch.seats) == (1, 1)
