"""Progress and estimated end of a job, on every database."""

import pytest
from recipes import ORIGIN, origin, recipe
from stores import TTL, Clock

from bot.delivery.render import render
from bot.store import Store
from bot.texts.catalogue import Texts


async def test_progress_covers_all_images_and_never_falls(store: Store, clock: Clock) -> None:
    job = await store.jobs.enqueue(recipe(variants=3, num_inference_steps=20), ORIGIN)
    seen: list[str] = []

    async def look() -> None:
        told = render(await store.jobs.get(job.id), None, Texts.for_locale("en")).status
        told = told.partition("\n")[0]
        seen.append(told.removeprefix("Painting: step ").removesuffix(" of 3 pictures finished."))

    first, second = await store.leases.claim("worker", limit=2, ttl=TTL)  # the second is not begun
    await look()
    await store.leases.heartbeat({first: 12, second: 0}, ttl=TTL)
    await look()
    await store.leases.heartbeat({first: 2, second: 0}, ttl=TTL)  # the first was begun again
    await look()
    await store.leases.complete(first, artifact="aa/aa.png", seconds=1.0)
    await look()
    await store.leases.heartbeat({second: 9}, ttl=TTL)
    clock.now += TTL
    await store.leases.expire()
    await look()
    await store.leases.claim("another", limit=1, ttl=TTL)
    await look()
    assert seen == [
        f"{step} of 60, {done}" for step, done in ((0, 0), (12, 0), (12, 0), (20, 1), (29, 1), (29, 1))
    ]


async def test_the_time_to_the_end_is_the_time_to_the_last_picture(store: Store) -> None:
    (measured,) = [await store.jobs.enqueue(recipe(num_inference_steps=20), origin(0))]
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    await store.leases.complete(claim, artifact="aa/aa.png", seconds=2.0)  # a tenth of a second a step
    await store.offers.announce("worker", lanes=[measured.recipe.lane], seats=1, ttl=TTL)
    several = await store.jobs.enqueue(recipe(variants=2, num_inference_steps=20), origin(1, user_id=1))
    between = await store.jobs.enqueue(recipe(num_inference_steps=20), origin(2, user_id=2))
    told = await store.positions.of(several.id)
    assert (told.seconds, told.end) == (pytest.approx(0.0), pytest.approx(2.0 + 2.0 + 2.0))
    first, second = await store.leases.claim("worker", limit=2, ttl=TTL)  # the second is not begun
    assert (first.job_id, second.job_id) == (several.id, between.id)
    await store.leases.heartbeat({first: 5, second: 0}, ttl=TTL)
    told = await store.positions.of(several.id)
    assert (told.seconds, told.end) == (pytest.approx(0.0), pytest.approx(1.5 + 2.0 + 2.0))
    held = await store.positions.of(between.id)
    assert (held.place, held.seconds, held.end) == (0, pytest.approx(1.5), pytest.approx(1.5 + 2.0))
