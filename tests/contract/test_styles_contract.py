"""Styles of servers, on every database."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from bot.store import Store
from bot.store.library.styles import Style
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


@pytest.mark.parametrize(
    ("name", "typed"),
    [
        ("먹 Ink", " 먹  iNK"),
        ("Caf\N{LATIN SMALL LETTER E WITH ACUTE}", "cafe\N{COMBINING ACUTE ACCENT}"),
        ("\N{LATIN SMALL LIGATURE FFI}" * 60, "FFI" * 60),  # the longest name of any script
    ],
)
async def test_a_style_is_found_by_its_name_in_any_spelling(store: Store, name: str, typed: str) -> None:
    await store.styles.put(replace(INK, name=name), HERE)
    assert await store.styles.find(GUILD, typed) == replace(INK, name=name)
    assert await store.styles.find(GUILD, typed[:2]) is None


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


async def test_a_name_belongs_to_one_server(store: Store) -> None:
    for guild in (GUILD, OTHER):
        await store.styles.put(INK, By(actor_id=1, guild_id=guild))
    await store.styles.put(Style(name="fog"), THERE)
    assert await store.styles.find(GUILD, "fog") is None
    assert not await store.styles.remove("fog", HERE)
    assert await store.styles.remove(INK.name.upper(), THERE)
    assert not await store.styles.remove(INK.name, THERE)
    assert await store.styles.of(GUILD) == [INK]


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
