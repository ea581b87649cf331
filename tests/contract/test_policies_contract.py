"""Policies and their rows in the audit log, on every database."""

from __future__ import annotations

import asyncio

from bot.store import Store
from bot.store.moderation.policies import PolicyRow, PolicyScope
from bot.store.rows.audit import Act, By

HERE, THERE, MINA = 21, 22, 11
CHANNEL = 32
ARTIST, NEWCOMER = 41, 42
BY = By(actor_id=MINA, guild_id=HERE)
SERVER, ROLE, OF_CHANNEL = PolicyScope.SERVER, PolicyScope.ROLE, PolicyScope.CHANNEL


def row(scope: PolicyScope, owner_id: int, **values: object) -> PolicyRow:
    return PolicyRow(scope=scope, id=owner_id, values=values)


async def test_a_server_reads_all_of_its_policies_and_those_of_no_other(store: Store) -> None:
    await store.policies.put(ROLE, ARTIST, {"steps": 50, "loras": ["ink"]}, BY)
    await store.policies.put(OF_CHANNEL, CHANNEL, {"steps": 30}, BY)
    await store.policies.put(SERVER, HERE, {"steps": 20}, BY)
    await store.policies.put(SERVER, THERE, {"steps": 2}, By(actor_id=MINA, guild_id=THERE))
    assert await store.policies.all_of(HERE) == [
        row(SERVER, HERE, steps=20),
        row(ROLE, ARTIST, steps=50, loras=["ink"]),
        row(OF_CHANNEL, CHANNEL, steps=30),
    ]
    assert await store.policies.all_of(MINA) == []


async def test_a_change_leaves_other_keys_and_is_logged_with_before_and_after(store: Store) -> None:
    await store.policies.put(SERVER, HERE, {"steps": 20, "paint": True}, BY)
    assert await store.policies.put(SERVER, HERE, {"steps": 30}, BY) == row(
        SERVER, HERE, paint=True, steps=30
    )
    newest, oldest = await store.moderation.entries(HERE, limit=9)
    where = {"scope": "server", "id": HERE}
    assert newest.act is oldest.act is Act.POLICY
    assert (newest.actor_id, newest.before, newest.after) == (
        MINA,
        {**where, "steps": 20},
        {**where, "steps": 30},
    )
    assert oldest.after == {**where, "steps": 20, "paint": True}


async def test_a_change_that_changes_nothing_leaves_no_row_in_the_log(store: Store) -> None:
    await store.policies.put(SERVER, HERE, {"steps": 20}, BY)
    await store.policies.put(SERVER, HERE, {"steps": 20, "paint": None}, BY)
    assert len(await store.moderation.entries(HERE, limit=9)) == 1


async def test_a_policy_that_says_nothing_any_more_goes(store: Store) -> None:
    await store.policies.put(ROLE, ARTIST, {"steps": 20}, BY)
    await store.policies.put(ROLE, ARTIST, {"steps": None}, BY)
    assert await store.policies.all_of(HERE) == []


async def test_a_removed_policy_is_logged_and_an_unknown_one_leaves_no_row(store: Store) -> None:
    await store.policies.put(ROLE, ARTIST, {"steps": 20}, BY)
    assert await store.policies.remove(ROLE, ARTIST, BY) == row(ROLE, ARTIST, steps=20)
    assert await store.policies.remove(ROLE, ARTIST, BY) is None
    newest, _ = await store.moderation.entries(HERE, limit=9)
    assert newest.before == {"scope": "role", "id": ARTIST, "steps": 20}
    assert newest.after == {"scope": "role", "id": ARTIST}


async def test_moderators_who_change_different_keys_at_once_both_succeed(store: Store) -> None:
    keys: list[dict[str, object]] = [{"steps": 20}, {"variants": 4}, {"paint": True}]
    await asyncio.gather(*(store.policies.put(SERVER, HERE, each, BY) for each in keys))
    [found] = await store.policies.all_of(HERE)
    assert found.values == {"steps": 20, "variants": 4, "paint": True}
    assert len(await store.moderation.entries(HERE, limit=9)) == 3


async def test_a_change_and_a_removal_at_once_both_succeed(store: Store) -> None:
    await store.policies.put(SERVER, HERE, {"steps": 20}, BY)
    await asyncio.gather(
        store.policies.put(SERVER, HERE, {"variants": 4}, BY), store.policies.remove(SERVER, HERE, BY)
    )
    found = [each.values for each in await store.policies.all_of(HERE)]
    assert found in ([], [{"variants": 4}])
