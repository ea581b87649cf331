"""The contents of a message: texts, pictures, files, or a result of this bot."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import discord

from bot.front.uploads.messages import Kind, files_of, result_of, texts_of

BOT, OTHER = 1, 2
CDN = "https://cdn.discordapp.com/attachments/1/2"
NOTHING = SimpleNamespace(url=None, proxy_url=None)


def attachment(name: str, content_type: str | None = None, **changes: Any) -> SimpleNamespace:
    given = {"filename": name, "title": None, "size": 5, "content_type": content_type}
    return SimpleNamespace(**given | {"url": f"{CDN}/{name}?ex=1", "proxy_url": f"{CDN}/{name}"} | changes)


def embed(**changes: Any) -> SimpleNamespace:
    return SimpleNamespace(
        **{"description": None, "fields": [], "image": NOTHING, "thumbnail": NOTHING} | changes
    )


def part(content: str = "", **changes: Any) -> SimpleNamespace:
    empty: dict[str, Any] = {"embeds": [], "components": [], "attachments": []}
    return SimpleNamespace(content=content, **empty | changes)


def message(content: str = "", *, author: int = OTHER, **changes: Any) -> discord.Message:
    given = {"message_snapshots": [], "author": SimpleNamespace(id=author)} | changes
    return cast("discord.Message", part(content, **given))


def rows(*custom_ids: str | None) -> list[SimpleNamespace]:
    return [SimpleNamespace(children=[SimpleNamespace(custom_id=each) for each in custom_ids])]


def test_a_result_is_known_by_the_buttons_of_this_bot_alone() -> None:
    for custom_id in ("again:0a1", "cancel:0a1", "vary:0a1:3", "more:0a1", "delete:0a1"):
        mine = message(author=BOT, components=rows(None, "history_show", custom_id))
        assert result_of(mine, BOT) == "0a1"
        assert result_of(message(author=OTHER, components=rows(custom_id)), BOT) is None
    for custom_id in ("privacy:forget", "recipe_read:0a1", "again:", "again:0a1:33", "cancel_all"):
        assert result_of(message(author=BOT, components=rows(custom_id)), BOT) is None


def test_code_blocks_come_before_the_text_around_them() -> None:
    found = list(texts_of(message("see\n```json\n{}\n```\nand ```two``` and ```open")))
    assert found[:2] == ["{}\n", "two"]
    assert found[-1].startswith("see")
    assert list(texts_of(message(""))) == []


def test_embeds_and_forwarded_messages_are_read_too() -> None:
    field = SimpleNamespace(name="Steps", value="9")
    forwarded = part("forwarded", embeds=[embed(description="a boat", fields=[field])])
    found = list(texts_of(message("", message_snapshots=[forwarded])))
    assert found[0] == "forwarded"
    assert "a boat\nSteps: 9, " in found


def test_files_are_pictures_or_texts_by_their_type_or_name_and_each_is_there_once() -> None:
    image = SimpleNamespace(url=f"{CDN}/a.png?ex=2", proxy_url=f"{CDN}/a.png?width=9")
    other = SimpleNamespace(url="https://example.org/b", proxy_url="https://images-ext-1.discordapp.net/b")
    found = files_of(
        message(
            attachments=[
                attachment("a.png"),
                attachment("odd", "image/webp; charset=x"),
                attachment("flow.json"),
                attachment("song.mp3", "audio/mpeg"),
                attachment("c.PNG", "application/octet-stream", title="제목.png"),
            ],
            embeds=[embed(image=image, thumbnail=other)],
            message_snapshots=[part(attachments=[attachment("d.gif")])],
        )
    )
    assert [(file.name, file.kind) for file in found] == [
        ("a.png", Kind.PICTURE),
        ("odd", Kind.PICTURE),
        ("flow.json", Kind.TEXT),
        ("제목.png", Kind.PICTURE),
        ("b", Kind.PICTURE),
        ("d.gif", Kind.PICTURE),
    ]
    assert found[4].addresses == ("https://example.org/b", "https://images-ext-1.discordapp.net/b")
    assert (found[0].size, found[4].size) == (5, None)
