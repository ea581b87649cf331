"""Wildcards of servers, on every database; what they share with styles is tested there."""

from __future__ import annotations

import pytest

from bot.domain.errors import UserMistake
from bot.store import Store
from bot.store.library.wildcards import MAX_WILDCARDS, Wildcard
from bot.store.rows.audit import Act, By

GUILD, OTHER = 2**62, 7
HERE, THERE = (By(actor_id=1, guild_id=guild) for guild in (GUILD, OTHER))
COLOUR = Wildcard(name="Colour", entries=("red", "짙은 파랑", "أخضر", "red"))


async def test_entries_keep_their_order_and_the_name_its_case(store: Store) -> None:
    await store.wildcards.put(COLOUR, HERE)
    assert await store.wildcards.find(GUILD, "colour") == COLOUR
    assert await store.wildcards.of(OTHER) == []


async def test_entries_are_replaced_as_a_whole(store: Store) -> None:
    await store.wildcards.put(COLOUR, HERE)
    await store.wildcards.put(Wildcard(name="COLOUR", entries=("grey",)), HERE)
    assert await store.wildcards.of(GUILD) == [Wildcard(name="COLOUR", entries=("grey",))]
    assert await store.wildcards.remove("colour", HERE)


async def test_a_server_at_its_limit_cannot_add_a_wildcard(store: Store) -> None:
    for number in range(MAX_WILDCARDS):
        await store.wildcards.put(Wildcard(name=f"list{number}", entries=("a",)), HERE)
    with pytest.raises(UserMistake, match="wildcards_full"):
        await store.wildcards.put(COLOUR, HERE)


async def test_wildcards_are_forgotten_with_their_server(store: Store) -> None:
    await store.wildcards.put(COLOUR, HERE)
    await store.wildcards.put(COLOUR, THERE)
    await store.erasure.erase_preferences(guild_id=GUILD)
    assert (await store.wildcards.of(GUILD), await store.wildcards.of(OTHER)) == ([], [COLOUR])


async def test_the_log_says_who_saved_and_removed_a_list_with_its_entries(store: Store) -> None:
    await store.wildcards.put(COLOUR, HERE)
    await store.wildcards.remove("colour", HERE)
    removed, added = await store.moderation.entries(GUILD, limit=9)
    assert {entry.act for entry in (removed, added)} == {Act.LIST}
    assert added.after == removed.before == {"name": COLOUR.name, "entries": list(COLOUR.entries)}
