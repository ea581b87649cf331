"""What every request asks about its place in one look, on every database."""

from __future__ import annotations

from dataclasses import replace

from bot.store import Store
from bot.store.auditing import By
from bot.store.moderation import Scope
from bot.store.policies import PolicyRow, PolicyScope
from bot.store.prompt_rules import Action, PromptRule
from bot.store.standing import Place, Standing

HERE, THERE, CHANNEL, ROLE, MINA, RAVI = 2**62 + 1, 22, 2**62 + 2, 2**62 + 3, 11, 2**62 + 4
BY = By(actor_id=MINA, guild_id=HERE)
PLACE = Place(user_id=RAVI, guild_id=HERE, channel_ids=(CHANNEL,), role_ids=(ROLE,))
GORE = PromptRule(name="No gore", terms=("blood", "gore"))
BRANDS = PromptRule(name="Brands", terms=("Acme",), also=("logo",), channel_id=5, action=Action.REFUSE)


async def test_a_place_of_which_nothing_is_known_has_automod_alone(store: Store) -> None:
    nothing = Standing(restrictions=[], policies=[], rules=[], automod=True)
    assert await store.standings.of(PLACE) == nothing
    assert await store.standings.of(Place(user_id=RAVI, guild_id=HERE)) == nothing
    assert await store.standings.of(Place(user_id=RAVI, guild_id=None)) == Standing(restrictions=[])


async def test_one_look_finds_blocks_policies_rules_and_the_switch_of_one_server(store: Store) -> None:
    block = await store.moderation.block(Scope(guild_id=HERE, user_id=RAVI), BY)
    of_role = await store.policies.put(PolicyScope.ROLE, ROLE, {"steps": 5}, BY)
    of_channel = await store.policies.put(PolicyScope.CHANNEL, CHANNEL, {"steps": 6}, BY)
    of_server = await store.policies.put(PolicyScope.SERVER, HERE, {"steps": 7}, BY)
    for rule in (GORE, BRANDS):
        await store.prompt_rules.put(rule, BY)
    await store.automod.apply(False, BY)
    whole = Standing(
        restrictions=[block], policies=[of_channel, of_role, of_server], rules=[BRANDS, GORE], automod=False
    )
    assert await store.standings.of(PLACE) == whole
    fewer: list[tuple[Place, list[PolicyRow]]] = [
        (replace(PLACE, role_ids=()), [of_channel, of_server]),
        (replace(PLACE, channel_ids=()), [of_role, of_server]),
        (Place(user_id=RAVI, guild_id=HERE), [of_server]),
    ]
    for place, policies in fewer:
        assert await store.standings.of(place) == replace(whole, policies=policies)
    assert await store.standings.of(replace(PLACE, guild_id=THERE)) == Standing(
        restrictions=[], policies=[], rules=[], automod=True
    )
    await store.automod.apply(True, BY)
    assert (await store.standings.of(PLACE)).automod
