"""Wildcards of servers, on every database; what they share with styles is tested there."""

from __future__ import annotations

import pytest

from bot.errors import UserMistake
from bot.store import Store
from bot.store.wildcards import MAX_WILDCARDS, Wildcard

GUILD, OTHER = 2**62, 7
COLOUR = Wildcard(name="Colour", entries=("red", "짙은 파랑", "أخضر", "red"))


async def test_entries_keep_their_order_and_the_name_its_case(store: Store) -> None:
    await store.wildcards.put(GUILD, COLOUR)
    assert await store.wildcards.find(GUILD, "colour") == COLOUR
    assert await store.wildcards.of(OTHER) == []


async def test_entries_are_replaced_as_a_whole(store: Store) -> None:
    await store.wildcards.put(GUILD, COLOUR)
    await store.wildcards.put(GUILD, Wildcard(name="COLOUR", entries=("grey",)))
    assert await store.wildcards.of(GUILD) == [Wildcard(name="COLOUR", entries=("grey",))]
    assert await store.wildcards.remove(GUILD, "colour")


async def test_a_server_at_its_limit_cannot_add_a_wildcard(store: Store) -> None:
    for number in range(MAX_WILDCARDS):
        await store.wildcards.put(GUILD, Wildcard(name=f"list{number}", entries=("a",)))
    with pytest.raises(UserMistake, match="wildcards_full"):
        await store.wildcards.put(GUILD, COLOUR)


async def test_wildcards_are_forgotten_with_their_server(store: Store) -> None:
    await store.wildcards.put(GUILD, COLOUR)
    await store.wildcards.put(OTHER, COLOUR)
    await store.erasure.erase_preferences(guild_id=GUILD)
    assert (await store.wildcards.of(GUILD), await store.wildcards.of(OTHER)) == ([], [COLOUR])
