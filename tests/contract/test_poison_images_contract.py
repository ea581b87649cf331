"""Images that lost a lease by a worker's death are retried one at a time."""

from collections.abc import Sequence

from recipes import RECIPE, origin, recipe
from stores import TTL, Clock

from bot.domain.jobs import Claim, State
from bot.store import Store

WIDE = recipe(width=256)


async def died_over(store: Store, clock: Clock, count: int) -> list[Claim]:
    """Return the claims of `count` images of different persons whose worker died."""
    for number in range(count):
        await store.jobs.enqueue(RECIPE, origin(number, user_id=number))
    claims = await store.leases.claim("worker", limit=count, ttl=TTL)
    await store.leases.heartbeat(dict.fromkeys(claims, 1), ttl=TTL)
    clock.now += TTL
    assert await store.leases.expire() == len(claims) == count
    return claims


async def complete(store: Store, claims: Sequence[Claim]) -> None:
    for claim in claims:
        await store.leases.complete(claim, artifact=f"aa/{claim.image_id}.png", seconds=1.0)


async def test_the_image_that_kills_its_workers_fails_and_the_images_claimed_with_it_do_not(
    store: Store, clock: Clock
) -> None:
    *_, poison, last = await died_over(store, clock, 6)
    while claims := await store.leases.claim("worker", limit=6, ttl=TTL):
        if poison.image_id in [claim.image_id for claim in claims]:
            clock.now += TTL
            assert await store.leases.expire() == len(claims)
        else:
            await complete(store, claims)
    counts = await store.jobs.counts()
    assert (counts[State.DONE], counts[State.FAILED]) == (5, 1)
    assert (await store.jobs.get(poison.job_id)).state is State.FAILED
    assert (await store.jobs.get(last.job_id)).state is State.DONE


async def test_each_worker_has_at_most_one_poison_image_at_a_time(store: Store, clock: Clock) -> None:
    poison = [claim.image_id for claim in await died_over(store, clock, 3)]
    for number in range(10, 12):
        await store.jobs.enqueue(RECIPE, origin(number, user_id=number))
    first = await store.leases.claim("worker", limit=4, ttl=TTL)
    assert [claim.image_id in poison for claim in first] == [True, False, False]
    (second,) = await store.leases.claim("another", limit=4, ttl=TTL)
    assert [first[0].image_id, second.image_id] == poison[:2]
    assert await store.leases.claim("worker", limit=4, ttl=TTL) == []
    await complete(store, first[:1])
    (third,) = await store.leases.claim("worker", limit=4, ttl=TTL)
    assert third.image_id == poison[2]


async def test_a_poison_image_without_room_in_its_lane_blocks_no_other_image(
    store: Store, clock: Clock
) -> None:
    await store.jobs.enqueue(WIDE, origin(100, user_id=100))
    [wide, *_] = await store.leases.claim("worker", limit=1, ttl=TTL)
    clock.now += TTL
    assert await store.leases.expire() == 1
    [poison] = await died_over_with_room(store, clock)
    rooms = {WIDE.lane: 0, RECIPE.lane: 4}
    assert [claim.image_id for claim in await store.leases.claim("worker", limit=rooms, ttl=TTL)] == [poison]
    rooms = {WIDE.lane: 4, RECIPE.lane: 0}
    assert await store.leases.claim("worker", limit=rooms, ttl=TTL) == []
    assert [claim.image_id for claim in await store.leases.claim("another", limit=rooms, ttl=TTL)] == [
        wide.image_id
    ]


async def died_over_with_room(store: Store, clock: Clock) -> list[int]:
    """Let a worker claim in the usual lane alone and die; return the ids of the images that it held."""
    await store.jobs.enqueue(RECIPE, origin(101, user_id=101))
    claims = await store.leases.claim("worker", limit={RECIPE.lane: 1}, ttl=TTL)
    clock.now += TTL
    assert await store.leases.expire() == 1
    return [claim.image_id for claim in claims]
