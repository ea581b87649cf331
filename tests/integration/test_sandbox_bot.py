"""A real discord.py client works with the sandbox as with Discord."""

from __future__ import annotations

import asyncio
from io import BytesIO

import discord
import pytest
from PIL import Image
from sandbox_bot import SIZES
from sandbox_tools import MakeBot, MakeMember

from bot.sandbox.client import InteractionFailed
from bot.sandbox.server import Sandbox


async def test_a_bot_logs_in_and_sees_the_server(sandbox: Sandbox, log_in: MakeBot) -> None:
    bot = await log_in(sandbox)
    assert sandbox.connected
    assert [guild.name for guild in bot.guilds] == ["The Studio"]
    assert [channel.name for channel in bot.guilds[0].text_channels] == ["general", "art", "nsfw-art"]
    assert bot.application is not None
    assert bot.guilds[0].text_channels[2].is_nsfw()


async def test_commands_are_registered_and_offered_to_members(
    sandbox: Sandbox, log_in: MakeBot, member: MakeMember
) -> None:
    bot = await log_in(sandbox)
    assert {command.name for command in await bot.tree.fetch_commands()} == {
        "imagine",
        "ask",
        "silent",
        "hide",
    }
    mina = await member(sandbox)
    offered = {command["name"]: command for command in (await mina.state())["commands"]}
    assert [option["name"] for option in offered["imagine"]["options"]] == ["prompt", "variants", "size"]


async def test_a_command_is_deferred_edited_with_a_picture_and_followed_up(
    sandbox: Sandbox, log_in: MakeBot, member: MakeMember
) -> None:
    await log_in(sandbox)
    mina, ravi = await member(sandbox), await member(sandbox, "Ravi")
    interaction = await mina.imagine(prompt="a red heart", variants=4)
    message = await mina.message_of(interaction)
    text = message["components"][0]["components"][0]
    assert text["content"] == "a red heart, 4 of 128x128"
    (picture,) = await mina.pictures(message)
    assert picture == await mina.attachment_bytes(message)
    assert Image.open(BytesIO(picture)).size == (24, 16)
    gallery = message["components"][0]["components"][1]
    assert gallery["items"][0]["media"]["width"] == 24
    assert gallery["items"][0]["description"] == "something red"
    follow_up = await mina.wait_for_message(lambda each: each["content"] == "more words")
    assert follow_up["flags"] & 64
    assert [each["id"] for each in await ravi.messages()] == [message["id"]]


async def test_options_are_suggested_while_typing(
    sandbox: Sandbox, log_in: MakeBot, member: MakeMember
) -> None:
    await log_in(sandbox)
    mina = await member(sandbox)
    choices = await mina.autocomplete("imagine", "size", "128", prompt="x")
    assert [choice["value"] for choice in choices] == [size for size in SIZES if size.startswith("128")]


async def test_a_modal_is_opened_filled_in_and_answered(
    sandbox: Sandbox, log_in: MakeBot, member: MakeMember
) -> None:
    await log_in(sandbox)
    mina = await member(sandbox)
    modal = await mina.modal_of(await mina.use("ask"))
    assert modal["title"] == "Remix"
    answer = await mina.message_of(await mina.submit(modal, words="hello"))
    assert answer["content"] == "you said hello"


async def test_a_dynamic_button_is_answered_by_a_bot_that_never_saw_the_message(
    sandbox: Sandbox, log_in: MakeBot, member: MakeMember
) -> None:
    first = await log_in(sandbox)
    mina, ravi = await member(sandbox), await member(sandbox, "Ravi")
    message = await mina.message_of(await mina.imagine(prompt="a star"))
    await first.close()
    await log_in(sandbox)
    await ravi.press(message, "Again")
    changed = await mina.wait_for_message(
        lambda each: each["id"] == message["id"] and "again 7" in str(each["components"])
    )
    assert len(changed["attachments"]) == 1
    assert changed["attachments"][0]["id"] != message["attachments"][0]["id"]


async def test_a_command_that_is_not_answered_fails_for_the_member(
    lenient: Sandbox, log_in: MakeBot, member: MakeMember
) -> None:
    await log_in(lenient)
    mina = await member(lenient)
    with pytest.raises(InteractionFailed, match="The application did not respond"):
        await mina.message_of(await mina.use("silent"))
    assert lenient.violations == ["command silent: no acknowledgement within 3 s"]


async def test_only_the_person_who_asked_sees_an_ephemeral_answer(
    sandbox: Sandbox, log_in: MakeBot, member: MakeMember
) -> None:
    bot = await log_in(sandbox)
    mina, ravi = await member(sandbox), await member(sandbox, "Ravi")
    message = await ravi.message_of(await ravi.use("hide"))
    assert message["content"] == "only you see this"
    assert await mina.messages() == []
    with pytest.raises(discord.NotFound):
        await bot.get_channel(int(message["channel_id"])).fetch_message(int(message["id"]))  # type: ignore[union-attr]


async def test_a_message_is_sent_edited_and_deleted_by_the_bots_own_token(
    sandbox: Sandbox, log_in: MakeBot, member: MakeMember
) -> None:
    bot = await log_in(sandbox)
    mina = await member(sandbox)
    channel = discord.utils.get(bot.guilds[0].text_channels, name="art")
    assert channel is not None
    sent = await channel.send("first", nonce="delivery-1")
    again = await channel.send("first", nonce="delivery-1")
    assert again.id == sent.id
    await sent.add_reaction("👍")
    await sent.edit(content="second")
    (seen,) = await mina.messages()
    assert (seen["content"], seen["reactions"][0]["count"]) == ("second", 1)
    assert [message.content async for message in channel.history()] == ["second"]
    await sent.delete()
    assert await mina.messages() == []


async def test_the_bot_writes_to_a_member_directly_unless_refused(
    sandbox: Sandbox, log_in: MakeBot, member: MakeMember
) -> None:
    bot = await log_in(sandbox)
    yuna = await member(sandbox, "Yuna", channel="dm")
    user = await bot.fetch_user(int((await yuna.state())["me"]["id"]))
    await user.send("안녕하세요")
    assert [message["content"] for message in await yuna.messages()] == ["안녕하세요"]
    await yuna.accept_dms(False)
    with pytest.raises(discord.Forbidden) as refusal:
        await user.send("still there?")
    assert refusal.value.code == 50007


async def test_a_lost_connection_is_resumed_and_what_was_missed_arrives(
    sandbox: Sandbox, log_in: MakeBot, member: MakeMember
) -> None:
    bot = await log_in(sandbox)
    mina = await member(sandbox)
    sandbox.misbehave(drop_gateway=True)
    interaction = await mina.use("hide")
    assert (await mina.message_of(interaction))["content"] == "only you see this"
    async with asyncio.timeout(10):
        await bot.resumed.wait()
