"""Wildcards of servers, on every database; what they share with styles is tested there."""

from __future__ import annotations

from bot.store import Store
from bot.store.library.wildcards import Wildcard
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


async def test_the_log_says_who_saved_and_removed_a_list_with_its_entries(store: Store) -> None:
    await store.wildcards.put(COLOUR, HERE)
    await store.wildcards.remove("colour", HERE)
    removed, added = await store.moderation.entries(GUILD, limit=9)
    assert {entry.act for entry in (removed, added)} == {Act.LIST}
    assert added.after == removed.before == {"name": COLOUR.name, "entries": list(COLOUR.entries)}
