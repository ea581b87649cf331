"""A small bot with a real discord.py client, for tests of the sandbox."""

from __future__ import annotations

import asyncio
from io import BytesIO

import discord
from discord import app_commands
from PIL import Image


class SmallBot(discord.Client):
    """A bot with a command that answers with a picture; it keeps what it hears in `heard`."""

    def __init__(self, *, intents: discord.Intents | None = None) -> None:
        super().__init__(
            intents=intents or discord.Intents(guilds=True, guild_messages=True), guild_ready_timeout=0.1
        )
        self.tree = app_commands.CommandTree(self)
        self.heard: list[str] = []
        self.ready = asyncio.Event()  # wait_until_ready() cannot be called before the login
        self.tree.add_command(imagine)

    async def setup_hook(self) -> None:
        await self.tree.sync()

    async def on_message(self, message: discord.Message) -> None:
        self.heard.append(f"{message.author.name}: {message.content}")

    async def on_ready(self) -> None:
        self.ready.set()


@app_commands.command(description="Paint a picture")
async def imagine(interaction: discord.Interaction[discord.Client], prompt: str) -> None:
    data = BytesIO()
    Image.new("RGB", (24, 16), "red").save(data, "PNG")
    data.seek(0)
    view = discord.ui.LayoutView(timeout=None).add_item(discord.ui.TextDisplay(prompt))
    view.add_item(discord.ui.MediaGallery(discord.MediaGalleryItem("attachment://picture.png")))
    await interaction.response.send_message(view=view, file=discord.File(data, "picture.png"))
