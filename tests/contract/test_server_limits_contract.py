"""What a server keeps of its own is limited, and goes with the server, on every database."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import pytest
from stores import OpenStore

from bot.domain.errors import UserMistake
from bot.store import Store
from bot.store.library.styles import Style
from bot.store.library.wildcards import Wildcard
from bot.store.moderation.policies import PolicyScope
from bot.store.moderation.prompt_rules import PromptRule
from bot.store.rows.audit import By

HERE, THERE = 2**62, 7


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Things that a server keeps: their limit, the code of a refusal, adding one by its number, and all."""

    limit: str
    full: str
    add: Callable[[Store, int, By], Awaitable[object]]
    all_of: Callable[[Store, int], Awaitable[Sequence[object]]]


KEPT = {
    "policies": Kept(
        limit="moderation.policies.MAX_POLICIES",
        full="policies_full",
        add=lambda store, number, by: store.policies.put(PolicyScope.ROLE, number, {"steps": 20}, by),
        all_of=lambda store, guild_id: store.policies.all_of(guild_id),
    ),
    "rules": Kept(
        limit="moderation.prompt_rules.PromptRules.most",
        full="rules_full",
        add=lambda store, number, by: store.prompt_rules.put(PromptRule(name=f"{number}", terms=("x",)), by),
        all_of=lambda store, guild_id: store.prompt_rules.of(guild_id),
    ),
    "blocked pictures": Kept(
        limit="moderation.known.MAX_BLOCKED",
        full="known_full",
        add=lambda store, number, by: store.known.block(number, by),
        all_of=lambda store, guild_id: store.known.blocked(guild_id),
    ),
    "styles": Kept(
        limit="library.styles.Styles.most",
        full="styles_full",
        add=lambda store, number, by: store.styles.put(Style(name=f"style {number}"), by),
        all_of=lambda store, guild_id: store.styles.of(guild_id),
    ),
    "wildcards": Kept(
        limit="library.wildcards.Wildcards.most",
        full="wildcards_full",
        add=lambda store, number, by: store.wildcards.put(Wildcard(name=f"list{number}", entries=("a",)), by),
        all_of=lambda store, guild_id: store.wildcards.of(guild_id),
    ),
}
of_each_kind = pytest.mark.parametrize("kept", KEPT.values(), ids=KEPT)


def by(guild_id: int = HERE) -> By:
    return By(actor_id=1, guild_id=guild_id)


@of_each_kind
async def test_a_full_server_takes_no_more_and_changes_what_it_has(
    kept: Kept, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"bot.store.{kept.limit}", 2)
    for number in (1, 2):
        await kept.add(store, number, by())
    with pytest.raises(UserMistake) as refused:
        await kept.add(store, 3, by())
    assert (refused.value.message_id, refused.value.details) == (kept.full, {"limit": 2})
    await kept.add(store, 2, by())
    await kept.add(store, 3, by(THERE))
    assert [len(await kept.all_of(store, guild_id)) for guild_id in (HERE, THERE)] == [2, 1]


@of_each_kind
async def test_of_several_at_once_a_full_server_takes_one(
    kept: Kept, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"bot.store.{kept.limit}", 1)
    stores = [await open_store() for _ in range(3)]
    adding = (kept.add(store, number, by()) for number, store in enumerate(stores, start=1))
    found = await asyncio.gather(*adding, return_exceptions=True)
    assert [each.message_id for each in found if isinstance(each, UserMistake)] == [kept.full] * 2
    assert len(await kept.all_of(stores[0], HERE)) == 1


@of_each_kind
async def test_everything_that_a_server_keeps_goes_with_it(kept: Kept, store: Store) -> None:
    for guild_id in (HERE, THERE):
        await kept.add(store, 1, by(guild_id))
    assert await store.erasure.servers() == {HERE, THERE}
    await store.erasure.erase_preferences(user_id=HERE)
    await store.erasure.erase_preferences(guild_id=THERE)
    assert [len(await kept.all_of(store, guild_id)) for guild_id in (HERE, THERE)] == [1, 0]
