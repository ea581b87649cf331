"""What fronts keep of servers in memory, and that every change holds at the next look, on every database."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from stores import OpenStore

from bot.front.services.standing import Operator, Server, ServerCache, Standing
from bot.moderation.policy import said_by
from bot.store import Store
from bot.store.moderation.policies import PolicyRow, PolicyScope
from bot.store.moderation.prompt_rules import PromptRule
from bot.store.moderation.standing import Requester, ServerSays, StandingRow
from bot.store.rows.audit import By
from bot.store.rows.restrictions import Scope

HERE, THERE, MINA = 21, 22, 11
THREAD, CHANNEL, ELSEWHERE, ARTIST, NEWCOMER = 33, 32, 31, 41, 42
BY = By(actor_id=MINA, guild_id=HERE)
PLACE = Requester(user_id=MINA, guild_id=HERE, channel_ids=(THREAD, CHANNEL), role_ids=(NEWCOMER, ARTIST))
OPERATOR = Operator()
GORE = PromptRule(name="No gore", terms=("blood",))


def steps_in(server: Server, place: Requester = PLACE) -> float | None:
    return server.standing(StandingRow(), place, OPERATOR).policy.steps


async def test_every_front_sees_each_change_at_its_next_request(open_store: OpenStore) -> None:
    fronts = [(ServerCache(), await open_store()) for _ in range(2)]

    async def seen() -> list[tuple[bool, float | None, bool]]:
        found = [(await cache.look(store, PLACE))[1] for cache, store in fronts]
        return [
            (each.judge.verdict(["blood"], channel_ids=()) is not None, steps_in(each), each.automod)
            for each in found
        ]

    store = fronts[0][1]
    assert await seen() == [(False, None, True)] * 2
    await store.prompt_rules.put(GORE, BY)
    assert await seen() == [(True, None, True)] * 2
    await store.policies.put(PolicyScope.SERVER, HERE, {"steps": 9}, BY)
    assert await seen() == [(True, 9, True)] * 2
    await store.automod.apply(False, BY)
    assert await seen() == [(True, 9, False)] * 2
    await store.erasure.erase_preferences(guild_id=HERE)
    assert await seen() == [(False, None, True)] * 2


async def test_what_a_server_says_is_kept_until_it_changes_and_restrictions_never_are(store: Store) -> None:
    cache = ServerCache()
    await store.prompt_rules.put(GORE, BY)
    _, first = await cache.look(store, PLACE)
    await store.prompt_rules.put(GORE, By(actor_id=MINA, guild_id=THERE))
    block = await store.moderation.block(Scope(guild_id=HERE, user_id=MINA), BY)
    standing, second = await cache.look(store, PLACE)
    assert second is first
    assert standing.restrictions == [block]
    await store.prompt_rules.put(GORE, BY)
    assert (await cache.look(store, PLACE))[1] is not first


async def test_the_servers_that_asked_longest_ago_are_forgotten_above_the_limits(store: Store) -> None:
    for guild_id in (1, 2, 3):
        rule = replace(GORE, terms=("blood", "gore"))
        await store.prompt_rules.put(rule, By(actor_id=MINA, guild_id=guild_id))
    for cache in (ServerCache(most_servers=2), ServerCache(most_parts=5)):
        kept = {
            guild_id: (await cache.look(store, Requester(user_id=MINA, guild_id=guild_id)))[1]
            for guild_id in (1, 2, 1, 3)
        }
        again = {
            guild_id: (await cache.look(store, Requester(user_id=MINA, guild_id=guild_id)))[1]
            for guild_id in (1, 3, 2)
        }
        assert [again[guild_id] is kept[guild_id] for guild_id in (1, 2, 3)] == [True, False, True]


def test_the_policies_that_hold_come_in_order_and_what_they_mean_is_decided_once() -> None:
    def row(scope: PolicyScope, owner_id: int, steps: int) -> PolicyRow:
        return PolicyRow(scope=scope, id=owner_id, values={"steps": steps})

    holding = [
        row(PolicyScope.CHANNEL, THREAD, 1),
        row(PolicyScope.CHANNEL, CHANNEL, 2),
        row(PolicyScope.ROLE, ARTIST, 3),
        row(PolicyScope.SERVER, HERE, 5),
    ]
    others = [row(PolicyScope.CHANNEL, ELSEWHERE, 6), row(PolicyScope.ROLE, ELSEWHERE, 7)]
    server = Server(ServerSays(revision=1, policies=[*others, *reversed(holding)]))

    def standing(place: Requester, operator: Operator = OPERATOR) -> Standing:
        return server.standing(StandingRow(), place, operator)

    first = standing(PLACE)
    assert first.said == tuple(map(said_by, holding))
    assert standing(replace(PLACE, user_id=12, role_ids=(ARTIST,))).effective is first.effective
    assert standing(replace(PLACE, role_ids=())).said == tuple(map(said_by, (*holding[:2], holding[3])))
    assert standing(PLACE).effective is first.effective
    assert standing(PLACE, Operator(policy=OPERATOR.policy)).effective is not first.effective


async def test_requests_at_the_same_time_share_what_is_compiled(store: Store) -> None:
    cache = ServerCache()
    await store.prompt_rules.put(GORE, BY)
    found = await asyncio.gather(*(cache.look(store, PLACE) for _ in range(4)))
    assert len({id(server) for _, server in found}) == 1
