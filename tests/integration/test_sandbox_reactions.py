"""Reactions in the sandbox: their counts for members, and their events for bots with the intent."""

from __future__ import annotations

import asyncio

import discord
import pytest
from sandbox_bot import SmallBot
from sandbox_tools import MakeBot, MakeMember

from bot.sandbox.client import RefusedByClient
from bot.sandbox.reactions import MOST_EMOJI
from bot.sandbox.server import Sandbox

STAR = "⭐"


class Hearing(SmallBot):
    """A bot that keeps the reactions that it hears of."""

    async def on_raw_reaction_add(self, event: discord.RawReactionActionEvent) -> None:
        self.heard.append(f"{event.user_id} added {event.emoji}")

    async def on_raw_reaction_remove(self, event: discord.RawReactionActionEvent) -> None:
        self.heard.append(f"{event.user_id} removed {event.emoji}")


async def heard(bot: SmallBot, count: int) -> list[str]:
    async with asyncio.timeout(5):
        while len(bot.heard) < count:  # noqa: ASYNC110 - a client's callback sets no event
            await asyncio.sleep(0.01)
    return bot.heard


async def test_a_bot_without_the_intent_receives_no_reaction(
    sandbox: Sandbox, log_in: MakeBot, member: MakeMember
) -> None:
    bot = await log_in(sandbox, Hearing(intents=discord.Intents(guilds=True, guild_messages=True)))
    mina = await member(sandbox)
    channel = discord.utils.get(bot.guilds[0].text_channels, name="art")
    assert channel is not None
    await channel.send("first")
    (message,) = await mina.messages()
    await mina.react(message, STAR)
    await channel.send("second")
    assert await heard(bot, 2) == ["sdjax: first", "sdjax: second"]


async def test_no_message_takes_more_emoji_than_discord_allows(
    sandbox: Sandbox, log_in: MakeBot, member: MakeMember
) -> None:
    bot = await log_in(sandbox)
    mina, ravi = await member(sandbox), await member(sandbox, "Ravi")
    channel = discord.utils.get(bot.guilds[0].text_channels, name="art")
    assert channel is not None
    await channel.send("first")
    (message,) = await mina.messages()
    for number in range(MOST_EMOJI):
        await mina.react(message, chr(0x1F600 + number))
    with pytest.raises(RefusedByClient, match="at most 20"):
        await mina.react(message, STAR)
    await ravi.react(message, chr(0x1F600))
