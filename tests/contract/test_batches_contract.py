"""Which images have a seat on the devices, on every database."""

from __future__ import annotations

from recipes import origin, recipe
from stores import TTL

from bot.store import Store
from bot.store.batches import Seated

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
