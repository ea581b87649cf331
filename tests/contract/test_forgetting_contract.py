"""Erasure of a person's or a server's data, on every database."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa
from finished_jobs import delivered
from recipes import RECIPE, origin, recipe
from stores import TTL, Clock, undelivered

from bot.domain.errors import StaleLease, UnknownJob
from bot.domain.jobs import Descent, Parent
from bot.domain.quotas import Caps
from bot.store import Store
from bot.store.library.styles import Style
from bot.store.library.wildcards import Wildcard
from bot.store.people.preferences import Owner, Scope
from bot.store.queue.seed_sequences import NextOf
from bot.store.rows.audit import By
from bot.store.tables.queue import last_tags, turns

UPLOAD, PICTURE, OTHER = "cc/upload.png", "aa/picture.png", "bb/other.png"
HERE, MINA, OMAR = 21, 11, 12


async def _last_tag(store: Store) -> float | None:
    async with store.shared.database.read() as connection:
        tag: float | None = await connection.scalar(sa.select(last_tags.c.tag))
        return tag


async def asked(
    store: Store, number: int, artifact: str, *, of: str | None = None, user_id: int = MINA
) -> str:
    """Finish a job that starts from the upload, or that repeats the job `of`; return its id."""
    where = replace(origin(number), user_id=user_id)
    if of is None:
        job = await store.jobs.enqueue(recipe(control_image=UPLOAD, controlnet="canny"), where)
    else:
        job = await store.jobs.enqueue(NextOf(job_id=of), where)
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    await store.files.expect(artifact, size=100)
    await store.leases.complete(claim, artifact=artifact, seconds=1.0)
    return job.id


async def test_an_upload_is_deleted_with_its_job_although_others_repeated_it(store: Store) -> None:
    first = await asked(store, 1, PICTURE)
    repeat = await asked(store, 2, OTHER, of=first, user_id=OMAR)
    assert set(await store.deliveries.delete_result(first, user_id=MINA)) == {UPLOAD, PICTURE}
    assert (await store.jobs.get(repeat)).images[0].artifact == OTHER


async def test_an_upload_is_kept_while_a_repeat_waits_for_it(store: Store) -> None:
    first = await asked(store, 1, PICTURE)
    await store.jobs.enqueue(NextOf(job_id=first), origin(2))
    assert await store.deliveries.delete_result(first, user_id=MINA) == [PICTURE]


async def test_an_upload_is_kept_for_another_person_who_sent_it_too(store: Store) -> None:
    first = await asked(store, 1, PICTURE)
    await asked(store, 2, OTHER, user_id=OMAR)
    assert await store.deliveries.delete_result(first, user_id=MINA) == [PICTURE]


async def test_erased_jobs_of_any_state_leave_no_row_and_no_file(store: Store) -> None:
    painted = await asked(store, 1, PICTURE)
    running = await store.jobs.enqueue(RECIPE, origin(2))
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    waiting = await store.jobs.enqueue(RECIPE, origin(3))
    mine = await store.erasure.job_ids_of(user_id=MINA, limit=9)
    assert mine == [waiting.id, running.id, painted]
    assert set(await store.erasure.erase(mine)) == {UPLOAD, PICTURE}
    assert await store.erasure.job_ids_of(user_id=MINA, limit=9) == []
    assert await undelivered(store, limit=9) == []
    with pytest.raises(UnknownJob):
        await store.jobs.get(painted)
    with pytest.raises(StaleLease):
        await store.leases.complete(claim, artifact=OTHER, seconds=1.0)


async def test_an_erased_lease_does_not_apply_to_a_new_image_with_the_same_id(store: Store) -> None:
    erased = await store.jobs.enqueue(RECIPE, origin(1))
    (old,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    await store.erasure.erase([erased.id])
    following = await store.jobs.enqueue(RECIPE, replace(origin(2), user_id=OMAR))
    await store.leases.claim("worker", limit=1, ttl=TTL)
    assert await store.leases.heartbeat({old: 1}, ttl=TTL) == {old.image_id}
    with pytest.raises(StaleLease):
        await store.leases.complete(old, artifact=PICTURE, seconds=1.0)
    assert (await store.jobs.get(following.id)).images[0].artifact is None


async def test_an_erased_delivery_does_not_settle_a_new_one_with_the_same_id(store: Store) -> None:
    erased = await asked(store, 1, PICTURE)
    (old,) = await store.deliveries.claim("front", limit=1)
    await store.erasure.erase([erased])
    following = await asked(store, 2, OTHER, user_id=OMAR)
    await store.deliveries.claim("front", limit=1)
    await store.deliveries.mark_delivered(old, outcome="edited", message_id=9)
    assert [delivery.job.id for delivery in await undelivered(store, limit=9)] == [following]


async def test_an_upload_that_others_remixed_stays_its_senders(store: Store) -> None:
    first = await asked(store, 1, PICTURE)
    remixed = first
    for number in (2, 3):  # a remix, and a remix of that
        parent = Parent(job_id=remixed, descent=Descent.REMIX)
        where = replace(origin(number), user_id=OMAR, parent=parent)
        remixed = (await store.jobs.enqueue(recipe(init_image=UPLOAD), where)).id
        (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
        await store.leases.complete(claim, artifact=OTHER, seconds=1.0)
    theirs = await store.erasure.job_ids_of(user_id=OMAR, limit=9)
    assert await store.erasure.files_sent(theirs) == set(), "an export has no file of another person"
    again = Parent(job_id=first, descent=Descent.REMIX)
    await store.jobs.enqueue(recipe(init_image=UPLOAD), replace(origin(4), parent=again))
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    await store.leases.complete(claim, artifact=OTHER, seconds=1.0)
    assert await store.deliveries.delete_result(first, user_id=MINA) == [PICTURE], "Mina remixed it herself"
    mine = await store.erasure.job_ids_of(user_id=MINA, limit=9)
    assert await store.erasure.erase(mine) == [UPLOAD]


async def test_a_file_that_another_job_shows_is_not_erased_with_a_server(store: Store) -> None:
    await delivered(store, 1, PICTURE)
    elsewhere = await store.jobs.enqueue(recipe(init_image=PICTURE), replace(origin(2), guild_id=None))
    jobs = await store.erasure.job_ids_of(guild_id=HERE, limit=9)
    assert await store.erasure.erase(jobs) == []
    assert await store.erasure.job_ids_of(user_id=MINA, limit=9) == [elsewhere.id]


async def test_the_turn_of_a_server_with_a_nearly_full_queue_goes_with_it(store: Store) -> None:
    await store.jobs.enqueue(RECIPE, origin(1), caps=Caps(waiting_per_server=1))

    async def scopes() -> list[str]:
        async with store.shared.database.read() as connection:
            return list(await connection.scalars(sa.select(turns.c.scope)))

    assert await scopes() == [str(HERE)]
    await store.erasure.erase_preferences(guild_id=HERE)
    assert await scopes() == []


async def test_a_server_counts_as_departed_from_the_first_note_until_the_bot_returns(
    store: Store, clock: Clock
) -> None:
    await delivered(store, 1, PICTURE)
    assert await store.erasure.servers() == {HERE}
    await store.erasure.note_departure([HERE])
    clock.now += 10
    await store.erasure.note_departure([HERE])
    assert await store.erasure.departed(before=clock.now) == [HERE]
    assert await store.erasure.departed(before=clock.now - 10) == []
    await store.erasure.note_presence([HERE])
    assert await store.erasure.departed(before=clock.now) == []


async def test_jobs_of_the_user_installed_app_do_not_go_with_a_server_that_removed_the_bot(
    store: Store, clock: Clock
) -> None:
    await delivered(store, 1, PICTURE)
    asked = await store.jobs.enqueue(RECIPE, replace(origin(2), external=True))
    await store.erasure.note_departure([HERE])
    clock.now += 10
    (inside,) = await store.erasure.job_ids_of(guild_id=HERE, limit=9)
    assert inside != asked.id
    await store.erasure.erase([inside])
    await store.erasure.erase_preferences(guild_id=HERE)
    assert await store.erasure.departed(before=clock.now) == []
    assert await store.erasure.servers() == set()
    assert (await store.jobs.get(asked.id)).deleted_at is None


async def test_a_bot_may_be_in_more_servers_than_a_statement_takes_values(store: Store, clock: Clock) -> None:
    await delivered(store, 1, PICTURE)
    await store.erasure.note_departure([HERE])
    clock.now += 10
    await store.erasure.note_presence([HERE + number for number in range(40_000)])
    assert await store.erasure.departed(before=clock.now) == []


async def test_a_server_with_only_styles_wildcards_or_rules_is_erased_too(store: Store, clock: Clock) -> None:
    await store.styles.put(Style(name="Ink"), By(actor_id=1, guild_id=1))
    await store.wildcards.put(Wildcard(name="colour", entries=("red",)), By(actor_id=1, guild_id=2))
    await store.preferences.put(Owner(scope=Scope.CHANNEL, id=5, guild_id=3), {"steps": 9})
    await store.preferences.put(Owner(scope=Scope.ME, id=MINA), {"steps": 9})
    assert await store.erasure.servers() == {1, 2, 3}
    await store.erasure.note_departure([1, 2, 3, 4])
    clock.now += 10
    assert await store.erasure.departed(before=clock.now) == [1, 2, 3, 4]
    for guild_id in (1, 2, 3, 4):
        await store.erasure.erase_preferences(guild_id=guild_id)
    assert await store.erasure.departed(before=clock.now) == []


async def test_a_server_of_which_only_a_revision_is_left_is_forgotten_too(store: Store, clock: Clock) -> None:
    await store.prompt_rules.remove("Nothing", By(actor_id=1, guild_id=HERE))
    assert await store.erasure.servers() == {HERE}
    await store.erasure.note_departure([HERE])
    clock.now += 1
    assert await store.erasure.departed(before=clock.now) == [HERE]
    await store.erasure.erase_preferences(guild_id=HERE)
    assert await store.erasure.departed(before=clock.now) == []


async def test_a_persons_share_is_deleted_when_the_person_has_no_jobs(store: Store) -> None:
    job = await store.jobs.enqueue(RECIPE, origin(1))
    await store.erasure.erase_share(MINA)
    assert await _last_tag(store) is not None
    await store.erasure.erase([job.id])
    await store.erasure.erase_share(MINA)
    assert await _last_tag(store) is None
