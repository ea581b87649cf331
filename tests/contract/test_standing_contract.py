"""What holds for a person in a channel, and the revisions of servers' settings, on every database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
import sqlalchemy as sa
from stores import OpenStore

from bot.store import Store
from bot.store.moderation.policies import PolicyScope
from bot.store.moderation.prompt_rules import Action, PromptRule
from bot.store.moderation.standing import Requester, ServerSays, StandingRow
from bot.store.people.preferences import Scope, owners_at
from bot.store.rows.audit import By
from bot.store.rows.restrictions import Scope as Restricted
from bot.store.rows.sessions import Plan
from bot.store.tables.policies import server_revisions

HERE, THERE, CHANNEL, ROLE, MINA, RAVI = 2**62 + 1, 22, 2**62 + 2, 2**62 + 3, 11, 2**62 + 4
BY = By(actor_id=MINA, guild_id=HERE)
PLACE = Requester(user_id=RAVI, guild_id=HERE, channel_ids=(CHANNEL,), role_ids=(ROLE,))
GORE = PromptRule(name="No gore", terms=("blood", "gore"))
BRANDS = PromptRule(name="Brands", terms=("Acme",), also=("logo",), channel_id=5, action=Action.REFUSE)
Change = Callable[[Store], Awaitable[object]]


async def revision(store: Store) -> int | None:
    return (await store.standings.of(PLACE)).revision


async def test_a_place_of_which_nothing_is_known_has_no_restriction_and_no_revision(store: Store) -> None:
    for place in (PLACE, Requester(user_id=RAVI, guild_id=HERE), Requester(user_id=RAVI, guild_id=None)):
        assert await store.standings.of(place) == StandingRow(restrictions=[], revision=None)


async def test_one_look_has_the_restrictions_of_the_place_and_the_revision_of_its_server(
    store: Store,
) -> None:
    block = await store.moderation.block(Restricted(guild_id=HERE, user_id=RAVI), BY)
    pause = await store.moderation.pause(Restricted(guild_id=HERE, channel_id=CHANNEL), BY)
    await store.moderation.pause(Restricted(guild_id=HERE, channel_id=CHANNEL + 1), BY)
    await store.prompt_rules.put(GORE, BY)
    found = await store.standings.of(PLACE)
    assert sorted(found.restrictions, key=lambda each: each.kind) == [block, pause]
    assert found.revision == (await store.standings.said_by(HERE)).revision is not None
    there = await store.standings.of(Requester(user_id=RAVI, guild_id=THERE, channel_ids=(CHANNEL,)))
    assert there == StandingRow(restrictions=[], revision=None)


async def test_one_look_says_whether_the_channel_has_an_open_session(store: Store) -> None:
    plan = Plan(theme="at night", quota=3, round_seconds=60.0, vote_seconds=60.0, session_seconds=3600.0)
    session = await store.sessions.open(plan, BY, channel_id=CHANNEL, locale="en-US")
    assert (await store.standings.of(PLACE)).in_session
    thread = replace(PLACE, channel_ids=(CHANNEL + 1, CHANNEL))
    assert not (await store.standings.of(thread)).in_session
    await store.sessions.abandon(session.id)
    assert not (await store.standings.of(PLACE)).in_session


@pytest.mark.parametrize("scope", Scope)
async def test_one_look_says_whether_preferences_of_the_person_the_channel_or_the_server_may_hold(
    store: Store, scope: Scope
) -> None:
    owners = owners_at(user_id=RAVI, channel_id=CHANNEL, guild_id=HERE)
    (owner,) = (each for each in owners if each.scope is scope)
    await store.preferences.put(replace(owner, id=owner.id + 1), {"steps": 9})
    assert not (await store.standings.of(PLACE)).has_preferences
    await store.preferences.put(owner, {"steps": 9})
    assert (await store.standings.of(PLACE)).has_preferences


async def test_a_server_says_its_policies_its_rules_and_the_switch(store: Store) -> None:
    assert await store.standings.said_by(HERE) == ServerSays(policies=[], rules=[])
    policy = await store.policies.put(PolicyScope.ROLE, ROLE, {"steps": 5}, BY)
    for rule in (GORE, BRANDS):
        await store.prompt_rules.put(rule, BY)
    await store.automod.apply(False, BY)
    assert await store.standings.said_by(HERE) == ServerSays(
        revision=await revision(store), policies=[policy], rules=[BRANDS, GORE], automod=False
    )
    assert await store.standings.said_by(THERE) == ServerSays(policies=[], rules=[])


CHANGES: dict[str, Change] = {
    "a rule is added": lambda store: store.prompt_rules.put(BRANDS, BY),
    "a rule is changed": lambda store: store.prompt_rules.put(PromptRule(name="no gore", terms=("x",)), BY),
    "a rule is removed": lambda store: store.prompt_rules.remove("no gore", BY),
    "a policy is added": lambda store: store.policies.put(PolicyScope.ROLE, 5, {"steps": 5}, BY),
    "a policy is changed": lambda store: store.policies.put(PolicyScope.ROLE, ROLE, {"steps": 5}, BY),
    "a policy is removed": lambda store: store.policies.remove(PolicyScope.ROLE, ROLE, BY),
    "the switch is set": lambda store: store.automod.apply(False, BY),
    "the server is erased": lambda store: store.erasure.erase_preferences(guild_id=HERE),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_each_change_gives_the_server_a_new_revision_for_every_process(
    open_store: OpenStore, change: Change
) -> None:
    store, other = await open_store(), await open_store()
    await store.prompt_rules.put(GORE, BY)
    await store.policies.put(PolicyScope.ROLE, ROLE, {"steps": 9}, BY)
    there = By(actor_id=MINA, guild_id=THERE)
    await store.prompt_rules.put(GORE, there)
    before, elsewhere = await revision(other), (await other.standings.said_by(THERE)).revision
    await change(store)
    assert await revision(other) != before
    assert (await other.standings.said_by(THERE)).revision == elsewhere


async def test_a_change_that_is_rolled_back_leaves_the_revision(store: Store) -> None:
    await store.prompt_rules.put(GORE, BY)
    before = await revision(store)
    async with store.shared.database.write() as connection:
        await connection.execute(sa.text("DELETE FROM prompt_rules"))
        assert await connection.scalar(sa.select(server_revisions.c.revision)) != before
        await connection.rollback()
    assert await revision(store) == before


async def test_an_erased_server_leaves_no_revision_and_gets_another_one_later(store: Store) -> None:
    await store.prompt_rules.put(GORE, BY)
    before = await revision(store)
    await store.erasure.erase_preferences(guild_id=HERE)
    assert await revision(store) is None
    await store.prompt_rules.put(BRANDS, BY)
    assert await revision(store) not in (before, None)
