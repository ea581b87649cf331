"""How far a job is and when it will be done, as its person is told, on every database."""

from recipes import ORIGIN, recipe
from stores import TTL, Clock

from bot.delivery.render import render
from bot.store import Store
from bot.texts import Texts


async def test_progress_is_of_all_images_and_never_falls(store: Store, clock: Clock) -> None:
    job = await store.enqueue(recipe(variants=3, num_inference_steps=20), ORIGIN)
    seen: list[str] = []

    async def look() -> None:
        told = render(await store.job(job.id), None, Texts.for_locale("en")).status
        seen.append(told.removeprefix("Painting: step ").removesuffix(" of 3 pictures finished."))

    first, second = await store.claim("worker", limit=2, ttl=TTL)  # the second waits in the worker
    await look()
    await store.heartbeat({first: 12, second: 0}, ttl=TTL)
    await look()
    await store.heartbeat({first: 2, second: 0}, ttl=TTL)  # it began anew
    await look()
    await store.complete(first, artifact="aa/aa.png", seconds=1.0)
    await look()
    await store.heartbeat({second: 9}, ttl=TTL)
    clock.now += TTL
    await store.expire()
    await look()
    await store.claim("another", limit=1, ttl=TTL)
    await look()
    assert seen == [
        f"{step} of 60, {done}" for step, done in ((0, 0), (12, 0), (12, 0), (20, 1), (29, 1), (29, 1))
    ]
