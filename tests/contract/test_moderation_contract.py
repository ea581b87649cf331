"""Blocks, pauses and the audit log, on every database."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
import sqlalchemy as sa
from recipes import RECIPE, origin
from stores import TTL, Clock, OpenStore

from bot.files import Files
from bot.files.erasure import forget
from bot.store import Store
from bot.store.moderation.standing import Requester
from bot.store.rows.audit import Act, By, Entry
from bot.store.rows.restrictions import Kind, Restriction, Scope
from bot.store.tables.queue import audit

HERE, CHANNEL, ELSEWHERE = 21, 31, 22
MINA, RAVI, OMAR = 11, 12, 13
HOUR = 3600.0
RAVI_HERE = Scope(guild_id=HERE, user_id=RAVI)


def mina(reason: str = "") -> By:
    return By(actor_id=MINA, guild_id=HERE, reason=reason)


async def standing(store: Store, user_id: int, guild_id: int | None = HERE) -> list[Restriction]:
    place = Requester(user_id=user_id, guild_id=guild_id, channel_ids=(CHANNEL,))
    return list((await store.standings.of(place)).restrictions)


async def log(store: Store, guild_id: int = HERE, **which: Any) -> list[Entry]:
    return await store.moderation.entries(guild_id, limit=9, **which)


async def test_a_block_holds_for_its_person_in_its_server_and_is_in_the_log(
    store: Store, clock: Clock
) -> None:
    block = await store.moderation.block(RAVI_HERE, mina("spam"), until=clock.now + HOUR)
    assert await standing(store, RAVI) == [block]
    assert (block.kind, block.by, block.reason, block.at) == (Kind.BLOCK, MINA, "spam", clock.now)
    for user_id, guild_id in ((OMAR, HERE), (RAVI, ELSEWHERE), (RAVI, None)):
        assert await standing(store, user_id, guild_id) == []
    (entry,) = await log(store)
    assert (entry.act, entry.actor_id, entry.subject_id) == (Act.BLOCK, MINA, RAVI)
    assert (entry.at, entry.reason, entry.before) == (clock.now, "spam", None)
    assert entry.after == {"until": clock.now + HOUR, "reason": "spam"}


async def test_the_operator_blocks_a_person_everywhere_and_a_whole_server(store: Store) -> None:
    person = await store.moderation.block(Scope(user_id=RAVI), By(actor_id=0, guild_id=0))
    server = await store.moderation.block(Scope(guild_id=ELSEWHERE), By(actor_id=0, guild_id=ELSEWHERE))
    assert await standing(store, RAVI) == await standing(store, RAVI, None) == [person]
    assert await standing(store, OMAR, ELSEWHERE) == [server]
    assert await standing(store, OMAR) == await standing(store, OMAR, None) == []
    assert [entry.subject_id for entry in await log(store, 0)] == [RAVI]
    assert [entry.act for entry in await log(store, ELSEWHERE)] == [Act.BLOCK]


async def test_an_expired_block_does_not_apply_and_is_deleted(store: Store, clock: Clock) -> None:
    await store.moderation.block(RAVI_HERE, mina(), until=clock.now + HOUR)
    await store.moderation.block(Scope(guild_id=HERE, user_id=OMAR), mina())
    clock.now += HOUR - 1
    assert len(await standing(store, RAVI)) == 1
    assert await store.moderation.lapse() == 0
    clock.now += 1
    assert await standing(store, RAVI) == []
    assert [each.scope.user_id for each in await store.moderation.in_force(HERE)] == [OMAR]
    assert await store.moderation.unblock(RAVI_HERE, mina()) is None
    await store.moderation.block(RAVI_HERE, mina(), until=clock.now + HOUR)
    clock.now += 10 * HOUR
    assert await store.moderation.lapse() == 1
    assert [entry.act for entry in await log(store)] == [Act.BLOCK] * 3


async def test_a_block_is_replaced_and_lifted_once_and_the_log_has_the_old_block(
    store: Store, clock: Clock
) -> None:
    await store.moderation.block(RAVI_HERE, mina("spam"), until=clock.now + HOUR)
    second = await store.moderation.block(RAVI_HERE, By(actor_id=OMAR, guild_id=HERE, reason="more spam"))
    assert await standing(store, RAVI) == [second]
    assert await store.moderation.unblock(RAVI_HERE, mina("sorry")) == second
    assert await store.moderation.unblock(RAVI_HERE, mina()) is None
    assert await standing(store, RAVI) == []
    lifted, replaced, first = await log(store)
    assert first.before is None
    assert replaced.before == first.after == {"until": clock.now + HOUR, "reason": "spam"}
    assert lifted.before == replaced.after == {"until": None, "reason": "more spam"}
    assert (lifted.act, lifted.after, lifted.reason) == (Act.UNBLOCK, None, "sorry")


async def test_a_channel_or_a_server_is_paused_and_resumed(store: Store) -> None:
    channel, server = Scope(guild_id=HERE, channel_id=CHANNEL), Scope(guild_id=HERE)
    word = await store.moderation.pause(channel, mina("back soon"))
    assert await standing(store, RAVI) == [word]
    elsewhere = Requester(user_id=RAVI, guild_id=HERE, channel_ids=(CHANNEL + 1,))
    assert (await store.standings.of(elsewhere)).restrictions == []
    thread = Requester(user_id=RAVI, guild_id=HERE, channel_ids=(CHANNEL + 2, CHANNEL))
    assert (await store.standings.of(thread)).restrictions == [word]
    await store.moderation.pause(server, mina())
    assert {each.scope for each in await standing(store, RAVI)} == {channel, server}
    assert await store.moderation.resume(channel, mina()) == word
    assert await store.moderation.resume(channel, mina()) is None
    assert [each.scope for each in await store.moderation.in_force(HERE)] == [server]
    resumed, _, paused = await log(store)
    assert (paused.act, resumed.act) == (Act.PAUSE, Act.RESUME)
    assert paused.after == resumed.before == {"until": None, "reason": "back soon", "channel_id": CHANNEL}


async def test_two_simultaneous_blocks_leave_one_block_and_two_log_rows(
    store: Store, open_store: OpenStore
) -> None:
    other = await open_store()
    for _ in range(5):
        await asyncio.gather(
            store.moderation.block(RAVI_HERE, mina("first")),
            other.moderation.block(RAVI_HERE, By(actor_id=OMAR, guild_id=HERE, reason="second")),
        )
        (held,) = await standing(store, RAVI)
        replacing, replaced = (await log(store))[:2]
        assert (replaced.before, replacing.before) == (None, replaced.after)
        assert held.reason == replacing.reason != replaced.reason
        lifted = await asyncio.gather(
            store.moderation.unblock(RAVI_HERE, mina()), other.moderation.unblock(RAVI_HERE, mina())
        )
        assert sorted(each is None for each in lifted) == [False, True]
        assert (await log(store))[0].act is Act.UNBLOCK


async def test_the_log_is_read_by_person_and_act_and_in_pages(store: Store) -> None:
    for number in range(3):
        await store.moderation.block(Scope(guild_id=HERE, user_id=RAVI + number), mina(str(number)))
    await store.moderation.unblock(RAVI_HERE, By(actor_id=OMAR, guild_id=HERE))
    await store.moderation.block(
        Scope(guild_id=ELSEWHERE, user_id=RAVI), By(actor_id=MINA, guild_id=ELSEWHERE)
    )
    everything = await log(store)
    assert [entry.act for entry in everything] == [Act.UNBLOCK, Act.BLOCK, Act.BLOCK, Act.BLOCK]
    assert await log(store, actor_id=OMAR) == everything[:1]
    assert await log(store, subject_id=RAVI) == [everything[0], everything[3]]
    assert await log(store, person_id=OMAR) == everything[:1] + everything[2:3]
    assert await log(store, act=Act.UNBLOCK) == everything[:1]
    assert await log(store, older_than=everything[1].id) == everything[2:]
    assert await log(store, newer_than=everything[2].id) == everything[:2]
    assert await store.moderation.entries(HERE, newer_than=everything[3].id, limit=1) == everything[2:3]
    assert await store.moderation.entries(HERE, limit=2) == everything[:2]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE audit SET reason = 'nothing'",
        "UPDATE audit SET act = 'unblock'",
        "UPDATE audit SET at = 0",
        "UPDATE audit SET guild_id = 1",
        "UPDATE audit SET id = 99",
        "UPDATE audit SET after = NULL",
        "UPDATE audit SET before = '{}'",
        "UPDATE audit SET actor_id = 99",
        "UPDATE audit SET subject_id = 99",
        "UPDATE audit SET subject_id = 0",
        "UPDATE audit SET actor_id = -1, reason = ''",
    ],
)
async def test_the_database_refuses_to_change_the_log(store: Store, change: str) -> None:
    await store.moderation.block(RAVI_HERE, mina("spam"))
    before = await log(store)
    with pytest.raises(sa.exc.IntegrityError, match="append-only"):
        async with store.shared.database.write() as connection:
            await connection.execute(sa.text(change))
    assert await log(store) == before


@pytest.mark.parametrize("change", ["actor_id = 11", "subject_id = 12", "actor_id = -7", "subject_id = -7"])
async def test_an_erased_persons_number_in_the_log_never_changes(store: Store, change: str) -> None:
    await store.moderation.block(RAVI_HERE, mina())
    async with store.shared.database.write() as connection:
        await connection.execute(sa.update(audit).values(actor_id=-5, subject_id=-6))
    with pytest.raises(sa.exc.IntegrityError, match="append-only"):
        async with store.shared.database.write() as connection:
            await connection.execute(sa.text(f"UPDATE audit SET {change}"))


async def test_rows_of_the_log_can_be_deleted_once_they_are_thirty_days_old(
    store: Store, clock: Clock
) -> None:
    clock.now = time.time() - 31 * 86_400.0
    await store.moderation.block(RAVI_HERE, mina("spam"))
    clock.now += 2 * 86_400.0
    await store.moderation.unblock(RAVI_HERE, mina())
    with pytest.raises(sa.exc.IntegrityError, match="append-only"):
        await store.moderation.forget(before=clock.now + 1, limit=9)
    assert await store.moderation.forget(before=clock.now, limit=9) == 1
    assert [entry.act for entry in await log(store)] == [Act.UNBLOCK]
    assert await store.moderation.forget(before=clock.now, limit=9) == 0


@pytest.mark.postgres
async def test_postgresql_refuses_to_empty_the_log(postgres_url: str) -> None:
    store = await Store.open(postgres_url)
    with pytest.raises(sa.exc.IntegrityError, match="append-only"):
        async with store.shared.database.write() as connection:
            await connection.execute(sa.text("TRUNCATE audit"))
    await store.close()


async def test_acts_of_moderators_are_in_the_log_and_acts_of_owners_are_not(
    store: Store,
) -> None:
    jobs = [await store.jobs.enqueue(RECIPE, origin(number, user_id=RAVI)) for number in range(1, 5)]
    await store.jobs.cancel(jobs[0].id, user_id=RAVI)
    await store.deliveries.delete_result(jobs[0].id, user_id=RAVI)
    for _ in range(2):
        await store.jobs.cancel(jobs[1].id, user_id=None, by=mina())
        await store.deliveries.delete_result(jobs[2].id, user_id=None, by=mina())
    deleted, cancelled = await log(store)
    assert (cancelled.act, cancelled.subject_id, cancelled.after) == (Act.CANCEL, RAVI, {"job": jobs[1].id})
    assert (deleted.act, deleted.subject_id, deleted.after) == (Act.DELETE, RAVI, {"job": jobs[2].id})


async def test_a_persons_recent_requests_are_cleared_with_one_log_entry(store: Store, clock: Clock) -> None:
    old = await store.jobs.enqueue(RECIPE, origin(1, user_id=RAVI))
    clock.now += HOUR
    since = clock.now
    jobs = [await store.jobs.enqueue(RECIPE, origin(number, user_id=RAVI)) for number in (2, 3)]
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    elsewhere = await store.jobs.enqueue(RECIPE, origin(4, user_id=RAVI, guild_id=ELSEWHERE))
    others = await store.jobs.enqueue(RECIPE, origin(5, user_id=OMAR))
    recent = await store.jobs.recent(RAVI, guild_id=HERE, since=since, limit=9)
    assert [job.id for job in recent] == [jobs[1].id, jobs[0].id]
    assert await store.jobs.count_recent(RAVI, guild_id=HERE, since=since) == 2
    chosen = [*(job.id for job in recent), others.id, "unknown"]
    assert await store.deliveries.clear(chosen, by=mina(), subject_id=RAVI) == (2, [])
    assert await store.deliveries.clear(chosen, by=mina(), subject_id=RAVI) == (0, [])
    assert await store.jobs.count_recent(RAVI, guild_id=HERE, since=since) == 0
    assert {job.id for job in await store.jobs.active()} == {old.id, elsewhere.id, others.id}
    assert await store.leases.heartbeat({claim: 1}, ttl=TTL) == set()  # the claim is of the erased image
    (entry,) = await log(store)
    assert (entry.act, entry.subject_id, entry.after) == (Act.CLEAR, RAVI, {"requests": 2})


async def erased(store: Store, **whose: int) -> None:
    await forget(store.erasure, Files(store.files, None), **whose)  # type: ignore[arg-type] - no files


async def test_erasure_replaces_the_person_by_a_number_and_keeps_the_rest_of_the_log(store: Store) -> None:
    await store.moderation.block(RAVI_HERE, mina("spam"))
    await store.moderation.pause(Scope(guild_id=HERE), By(actor_id=RAVI, guild_id=HERE))
    await erased(store, user_id=RAVI)
    paused, blocked = await log(store)
    assert blocked.subject_id == paused.actor_id < 0
    assert (blocked.actor_id, blocked.reason, paused.subject_id) == (MINA, "spam", 0)
    assert RAVI not in {each.by for each in await store.moderation.in_force(HERE)}
    await erased(store, user_id=MINA)
    assert (await log(store))[1].actor_id not in (MINA, blocked.subject_id)


async def test_erasure_lifts_no_block(store: Store) -> None:
    await store.moderation.block(RAVI_HERE, mina("spam"))
    await erased(store, user_id=RAVI)
    assert [each.reason for each in await standing(store, RAVI)] == ["spam"]
    assert await store.moderation.of_person(RAVI) == await standing(store, RAVI)


async def test_the_erasure_of_a_server_deletes_its_restrictions_but_not_its_log_or_the_operators_blocks(
    store: Store, clock: Clock
) -> None:
    operator = By(actor_id=0, guild_id=HERE)
    await store.moderation.block(RAVI_HERE, mina())
    await store.moderation.pause(Scope(guild_id=HERE), mina())
    await store.moderation.block(Scope(guild_id=HERE), operator)
    await store.moderation.block(Scope(user_id=OMAR), By(actor_id=0, guild_id=0))
    assert await store.erasure.servers() == {HERE}
    await store.erasure.note_departure([HERE])
    clock.now += 10
    assert await store.erasure.departed(before=clock.now) == [HERE]
    await erased(store, guild_id=HERE)
    assert await store.erasure.departed(before=clock.now) == []
    assert {each.scope for each in await standing(store, OMAR)} == {Scope(guild_id=HERE), Scope(user_id=OMAR)}
    assert len(await log(store)) == 3
