"""The part of the tour about known pictures."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping

import PIL.Image
from tour import Guest, Message, text_of

from bot.front.moderators import whose
from bot.sandbox.community import GUILD_ID, PEOPLE


async def know_pictures(guests: Mapping[str, Guest], grid: Message) -> None:
    """Mina asks whose pictures are, and blocks one of the evening and one that she sends."""
    mina, ravi = guests["mina"], f"<@{PEOPLE[1].id}>"
    page = await mina.answer(await mina.menu(grid, whose.NAME))
    assert ravi in text_of(page)
    blocked_once = await mina.fill(await mina.press(page, "block_picture"), reason="a test")
    undo = await mina.press(await mina.answer(blocked_once), "unblock_picture")
    await mina.answer(undo)
    again = await mina.fill(await mina.press(page, "block_picture"), reason="a test")
    await mina.answer(again)
    leak, link = ("leak.png", plain("green")), link_of(grid)
    await mina.answer(await mina.use("known block", picture=leak, reason="a leak"))
    blocked = re.findall(r"`([0-9a-f]{16})`", text_of(await mina.answer(await mina.use("known show"))))
    assert len(blocked) == 2
    assert ravi in text_of(await mina.answer(await mina.use("whose", message=link)))
    assert await mina.answer(await mina.use("whose", picture=leak))
    for name in blocked:
        assert await mina.suggested("known remove", "name", name[:9]) == [name]
        await mina.answer(await mina.use("known remove", name=name, reason="settled"))


def link_of(message: Message) -> str:
    """The link of a message of the server."""
    return f"https://discord.com/channels/{GUILD_ID}/{message['channel_id']}/{message['id']}"


def plain(colour: str) -> bytes:
    """A plain picture as a file."""
    file = io.BytesIO()
    PIL.Image.new("RGB", (64, 64), colour).save(file, "PNG")
    return file.getvalue()
