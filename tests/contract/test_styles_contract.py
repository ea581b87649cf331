"""Styles of servers, on every database."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, replace

import pytest
from stores import OpenStore

from bot.domain.errors import UserMistake
from bot.store import Store
from bot.store.library.styles import MAX_STYLES, Style, Styles
from bot.store.rows.audit import Act, By

GUILD, OTHER = 2**62, 7
HERE, THERE = (By(actor_id=1, guild_id=guild) for guild in (GUILD, OTHER))
INK = Style(
    name="먹 Ink",
    prompt="{prompt}, ink",
    negative_prompt="photo",
    options={"steps": 30, "guidance": 7.5, "lora": "ink:0.8"},
    example="https://discord.com/channels/1/2/3",
)

ONE_STYLE = {name: value for name, value in asdict(INK).items() if name != "name"}


async def test_a_style_is_found_by_its_name_in_any_letter_case_and_spacing(store: Store) -> None:
    await store.styles.put(INK, HERE)
    assert await store.styles.find(GUILD, " 먹  iNK") == INK
    assert await store.styles.find(GUILD, "먹") is None


async def test_each_server_has_its_own_styles_by_name(store: Store) -> None:
    for name in ("b", "A", "c"):
        await store.styles.put(Style(name=name), HERE)
    await store.styles.put(INK, THERE)
    assert [style.name for style in await store.styles.of(GUILD)] == ["A", "b", "c"]
    assert await store.styles.of(OTHER) == [INK]


async def test_a_style_of_the_same_name_is_replaced(store: Store) -> None:
    await store.styles.put(INK, HERE)
    await store.styles.put(replace(INK, name="먹 INK", options={}), HERE)
    assert await store.styles.of(GUILD) == [replace(INK, name="먹 INK", options={})]


async def test_a_style_is_removed_once(store: Store) -> None:
    await store.styles.put(INK, HERE)
    assert await store.styles.remove("먹 ink", HERE)
    assert not await store.styles.remove("먹 ink", HERE)
    assert await store.styles.of(GUILD) == []


async def test_a_server_at_its_limit_can_change_styles_but_not_add_one(store: Store) -> None:
    for number in range(MAX_STYLES):
        await store.styles.put(Style(name=f"style {number}"), HERE)
    await store.styles.put(Style(name="style 5", prompt="fog"), HERE)
    with pytest.raises(UserMistake, match="styles_full"):
        await store.styles.put(INK, HERE)
    await store.styles.put(INK, THERE)
    assert len(await store.styles.of(GUILD)) == MAX_STYLES


async def test_the_longest_name_of_any_script_can_be_stored(store: Store) -> None:
    await store.styles.put(Style(name="\N{LATIN SMALL LIGATURE FFI}" * 60), HERE)
    assert await store.styles.find(GUILD, "FFI" * 60) is not None


async def test_styles_are_forgotten_with_their_server(store: Store) -> None:
    await store.styles.put(INK, HERE)
    await store.styles.put(INK, THERE)
    await store.erasure.erase_preferences(user_id=GUILD)
    await store.erasure.erase_preferences(guild_id=GUILD)
    assert await store.styles.of(GUILD) == []
    assert await store.styles.of(OTHER) == [INK]


async def test_composed_and_decomposed_letters_are_one_name(store: Store) -> None:
    await store.styles.put(Style(name="Caf\N{LATIN SMALL LETTER E WITH ACUTE}"), HERE)
    assert await store.styles.find(GUILD, "cafe\N{COMBINING ACUTE ACCENT}") is not None


async def test_a_name_belongs_to_one_server(store: Store) -> None:
    for guild in (GUILD, OTHER):
        await store.styles.put(INK, By(actor_id=1, guild_id=guild))
    await store.styles.put(Style(name="fog"), THERE)
    assert await store.styles.find(GUILD, "fog") is None
    assert not await store.styles.remove("fog", HERE)
    assert await store.styles.remove(INK.name, THERE)
    assert await store.styles.of(GUILD) == [INK]


async def test_a_refusal_says_the_limit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Styles, "most", 1)
    await store.styles.put(INK, HERE)
    with pytest.raises(UserMistake) as refused:
        await store.styles.put(Style(name="fog"), HERE)
    assert (refused.value.message_id, refused.value.details) == ("styles_full", {"limit": 1})


async def test_styles_that_are_saved_at_once_do_not_exceed_the_limit(open_store: OpenStore) -> None:
    first, second = await open_store(), await open_store()
    for number in range(MAX_STYLES - 1):
        await first.styles.put(Style(name=f"style {number}"), HERE)
    said = await asyncio.gather(
        *(store.styles.put(Style(name=f"new {n}"), HERE) for n in range(4) for store in (first, second)),
        return_exceptions=True,
    )
    assert len(await first.styles.of(GUILD)) == MAX_STYLES
    assert any(isinstance(each, UserMistake) for each in said)


async def test_the_log_says_who_saved_and_removed_a_style_with_the_values_before(store: Store) -> None:
    await store.styles.put(INK, HERE)
    await store.styles.put(replace(INK, prompt="{prompt}, fog"), HERE)
    await store.styles.remove(INK.name, HERE)
    removed, changed, added = await store.moderation.entries(GUILD, limit=9)
    assert {entry.act for entry in (removed, changed, added)} == {Act.STYLE}
    assert added.before is None
    assert added.after == changed.before == {"name": INK.name, **ONE_STYLE}
    assert changed.after == removed.before == {"name": INK.name, **ONE_STYLE, "prompt": "{prompt}, fog"}
    assert removed.after is None
