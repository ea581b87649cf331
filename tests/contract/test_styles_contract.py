"""Styles of servers, on every database."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bot.errors import UserMistake
from bot.store import Store
from bot.store.styles import MAX_STYLES, Style, Styles

GUILD, OTHER = 2**62, 7
INK = Style(
    name="먹 Ink",
    prompt="{prompt}, ink",
    negative_prompt="photo",
    options={"steps": 30, "guidance": 7.5, "lora": "ink:0.8"},
    example="https://discord.com/channels/1/2/3",
)


async def test_a_style_is_found_by_its_name_in_any_letter_case_and_spacing(store: Store) -> None:
    await store.styles.put(GUILD, INK)
    assert await store.styles.find(GUILD, " 먹  iNK") == INK
    assert await store.styles.find(GUILD, "먹") is None


async def test_each_server_has_its_own_styles_by_name(store: Store) -> None:
    for name in ("b", "A", "c"):
        await store.styles.put(GUILD, Style(name=name))
    await store.styles.put(OTHER, INK)
    assert [style.name for style in await store.styles.of(GUILD)] == ["A", "b", "c"]
    assert await store.styles.of(OTHER) == [INK]


async def test_a_style_of_the_same_name_is_replaced(store: Store) -> None:
    await store.styles.put(GUILD, INK)
    await store.styles.put(GUILD, replace(INK, name="먹 INK", options={}))
    assert await store.styles.of(GUILD) == [replace(INK, name="먹 INK", options={})]


async def test_a_style_is_removed_once(store: Store) -> None:
    await store.styles.put(GUILD, INK)
    assert await store.styles.remove(GUILD, "먹 ink")
    assert not await store.styles.remove(GUILD, "먹 ink")
    assert await store.styles.of(GUILD) == []


async def test_a_server_at_its_limit_can_change_styles_but_not_add_one(store: Store) -> None:
    for number in range(MAX_STYLES):
        await store.styles.put(GUILD, Style(name=f"style {number}"))
    await store.styles.put(GUILD, Style(name="style 5", prompt="fog"))
    with pytest.raises(UserMistake, match="styles_full"):
        await store.styles.put(GUILD, INK)
    await store.styles.put(OTHER, INK)
    assert len(await store.styles.of(GUILD)) == MAX_STYLES


async def test_the_longest_name_of_any_script_can_be_stored(store: Store) -> None:
    await store.styles.put(GUILD, Style(name="\N{LATIN SMALL LIGATURE FFI}" * 60))
    assert await store.styles.find(GUILD, "FFI" * 60) is not None


async def test_styles_are_forgotten_with_their_server(store: Store) -> None:
    await store.styles.put(GUILD, INK)
    await store.styles.put(OTHER, INK)
    await store.erasure.erase_preferences(user_id=GUILD)
    await store.erasure.erase_preferences(guild_id=GUILD)
    assert await store.styles.of(GUILD) == []
    assert await store.styles.of(OTHER) == [INK]


async def test_composed_and_decomposed_letters_are_one_name(store: Store) -> None:
    await store.styles.put(GUILD, Style(name="Caf\N{LATIN SMALL LETTER E WITH ACUTE}"))
    assert await store.styles.find(GUILD, "cafe\N{COMBINING ACUTE ACCENT}") is not None


async def test_a_name_belongs_to_one_server(store: Store) -> None:
    for guild in (GUILD, OTHER):
        await store.styles.put(guild, INK)
    await store.styles.put(OTHER, Style(name="fog"))
    assert await store.styles.find(GUILD, "fog") is None
    assert not await store.styles.remove(GUILD, "fog")
    assert await store.styles.remove(OTHER, INK.name)
    assert await store.styles.of(GUILD) == [INK]


async def test_a_refusal_says_the_limit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Styles, "most", 1)
    await store.styles.put(GUILD, INK)
    with pytest.raises(UserMistake) as refused:
        await store.styles.put(GUILD, Style(name="fog"))
    assert (refused.value.message_id, refused.value.details) == ("styles_full", {"limit": 1})
