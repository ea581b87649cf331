"""Jobs that have ended, their files announced as a worker announces them."""

from __future__ import annotations

from recipes import origin, recipe
from stores import TTL, undelivered

from bot.domain.jobs import Job, Origin, Showing
from bot.store import Store
from bot.store.rows.hashes import Hashes

PICTURE, OTHER = "aa/picture.png", "bb/other.png"


async def painted(store: Store, number: int, artifact: str, *, start: str | None = None) -> Job:
    """A finished job that shows `artifact`, 100 bytes, and is still to be delivered."""
    await store.jobs.enqueue(recipe(init_image=start), origin(number))
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    assert await store.files.expect(artifact, size=100)
    return await store.leases.complete(claim, artifact=artifact, seconds=1.0)


async def delivered(store: Store, number: int, artifact: str, *, start: str | None = None) -> Job:
    """As `painted`, and delivered."""
    job = await painted(store, number, artifact, start=start)
    for delivery in await undelivered(store, limit=10):
        await store.deliveries.mark_delivered(delivery, outcome="edited", message_id=9)
    return job


async def first_held(store: Store, asker: Origin, hashes: tuple[int, int]) -> Job:
    """A finished job of two pictures with these hashes: the first is held for review, the second is shown."""
    await store.jobs.enqueue(recipe(variants=2), asker)
    claims = await store.leases.claim("worker", limit=2, ttl=TTL)
    for claim, number, showing in zip(claims, hashes, (Showing.HOLD, Showing.SHOW), strict=True):
        job = await store.leases.complete(
            claim, artifact=f"aa/{number}.png", seconds=1.0, showing=showing, hashes=Hashes(result=number)
        )
    return job
