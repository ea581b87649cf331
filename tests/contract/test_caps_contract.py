"""The caps on what may wait, near their limits, and the rows that order the requests near a limit."""

import pytest
import sqlalchemy as sa
from recipes import ORIGIN, RECIPE, origin
from stores import TTL

from bot.domain.errors import UserMistake
from bot.domain.quotas import Caps
from bot.store import Store
from bot.store.queue.new_jobs import NEAR
from bot.store.tables.queue import images, last_tags, turns


async def answer(store: Store, number: int, *, caps: Caps, places: int = 1, **values: int | None) -> str:
    """Enqueue a request, and return "queued" or the refusal."""
    try:
        await store.jobs.enqueue(RECIPE, origin(number, **values), caps=caps, places=places)
    except UserMistake as error:
        return error.message_id
    return "queued"


async def scopes(store: Store) -> set[str]:
    async with store.shared.database.read() as connection:
        return set(await connection.scalars(sa.select(turns.c.scope)))


async def test_near_a_cap_requests_of_the_same_scope_wait_for_each_other(store: Store) -> None:
    caps = Caps(waiting=9, waiting_per_server=9)
    assert await answer(store, 1, user_id=1, guild_id=70, caps=caps) == "queued"
    assert await scopes(store) == {"all", "70"}
    assert await answer(store, 2, user_id=2, guild_id=None, caps=caps) == "queued"
    assert await scopes(store) == {"all", "70", "direct"}


async def test_far_from_a_cap_nobody_waits_for_anybody(store: Store) -> None:
    assert await answer(store, 1, places=2, caps=Caps(waiting=NEAR + 2)) == "queued"
    assert await scopes(store) == set()
    assert await answer(store, 2, places=1, caps=Caps(waiting=NEAR + 2)) == "queued"
    assert await scopes(store) == {"all"}


async def test_who_only_looks_makes_no_rows(store: Store) -> None:
    await store.jobs.check_caps(ORIGIN, caps=Caps(waiting=9, waiting_per_server=9))
    assert await scopes(store) == set()


async def test_a_persons_first_image_is_tagged_from_the_start_of_the_fair_order(store: Store) -> None:
    assert await answer(store, 1, caps=Caps()) == "queued"
    async with store.shared.database.read() as connection:
        (image,) = await connection.execute(sa.select(images.c.tag, images.c.share))
        assert image.tag == image.share
        assert list(await connection.scalars(sa.select(last_tags.c.tag))) == [image.tag]


async def test_a_look_before_the_request_counts_one_place(store: Store) -> None:
    caps = Caps(waiting_per_user=2)
    assert await answer(store, 1, caps=caps) == "queued"
    await store.jobs.check_caps(origin(2), caps=caps)
    assert await answer(store, 2, caps=caps) == "queued"
    with pytest.raises(UserMistake, match="queue_full_user"):
        await store.jobs.check_caps(origin(3), caps=caps)


async def test_a_persons_own_cap_counts_no_one_elses_requests(store: Store) -> None:
    caps = Caps(waiting_per_user=2)
    for number in range(3):
        assert await answer(store, number, user_id=number, caps=caps) == "queued"
    assert await answer(store, 10, user_id=0, caps=caps) == "queued"
    assert await answer(store, 11, user_id=0, caps=caps) == "queue_full_user"


async def test_the_share_counts_only_what_the_person_has_waiting(store: Store) -> None:
    caps = Caps(images_at_full_share=1)
    for number in range(3):
        assert not (await store.jobs.enqueue(RECIPE, origin(number, user_id=number), caps=caps)).slowed
    assert (await store.jobs.enqueue(RECIPE, origin(10, user_id=0), caps=caps)).slowed
    await store.leases.claim("worker", limit=4, ttl=TTL)
    assert not (await store.jobs.enqueue(RECIPE, origin(11, user_id=0), caps=caps)).slowed


async def test_a_cap_of_nothing_lets_one_request_wait(store: Store) -> None:
    caps = Caps(waiting=0)
    assert await answer(store, 1, user_id=1, caps=caps) == "queued"


async def test_the_kept_places_are_counted_down_to_whole_ones(store: Store) -> None:
    caps = Caps(waiting=9, kept=0.2)  # 1.8 places are one whole place
    answers = [await answer(store, number, user_id=1, caps=caps) for number in range(9)]
    assert answers == ["queued"] * 8 + ["queue_full"]
