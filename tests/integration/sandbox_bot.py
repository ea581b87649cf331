"""A small bot with a real discord.py client, for tests of the sandbox."""

from __future__ import annotations

import asyncio
import re
from io import BytesIO
from typing import Any, Self

import discord
from discord import app_commands
from PIL import Image

Interaction = discord.Interaction[discord.Client]
SIZES = ["128x128", "192x128", "128x192"]


def picture(color: str = "red") -> discord.File:
    """A small PNG to upload."""
    data = BytesIO()
    Image.new("RGB", (24, 16), color).save(data, "PNG")
    data.seek(0)
    return discord.File(data, "picture.png", description=f"something {color}")


def shown(text: str, *, color: str | None = "red") -> discord.ui.LayoutView:
    """A message as the product writes them: text, picture, buttons in a container."""
    container: discord.ui.Container[Any] = discord.ui.Container(discord.ui.TextDisplay(text))
    if color is not None:
        item = discord.MediaGalleryItem("attachment://picture.png", description=f"something {color}")
        container.add_item(discord.ui.MediaGallery(item))
    container.add_item(
        discord.ui.ActionRow(AgainButton("7"), discord.ui.Button(label="Plain", custom_id="plain"))
    )
    return discord.ui.LayoutView(timeout=None).add_item(container)


class AgainButton(discord.ui.DynamicItem[discord.ui.Button[Any]], template=r"again:(?P<job>[0-9]+)"):
    """A button that knows its job by its custom id alone."""

    def __init__(self, job: str) -> None:
        super().__init__(discord.ui.Button(label="Again", custom_id=f"again:{job}"))
        self.job = job

    @classmethod
    async def from_custom_id(
        cls, _interaction: Interaction, _item: discord.ui.Item[Any], match: re.Match[str], /
    ) -> Self:
        return cls(match["job"])

    async def callback(self, interaction: Interaction) -> None:
        await interaction.response.edit_message(
            attachments=[picture("blue")], view=shown(f"again {self.job}", color="blue")
        )


class Question(discord.ui.Modal, title="Remix"):
    """A modal with one labelled text."""

    words: discord.ui.Label[Any] = discord.ui.Label(
        text="Words", component=discord.ui.TextInput(custom_id="words", max_length=20)
    )

    async def on_submit(self, interaction: Interaction, /) -> None:
        assert isinstance(self.words.component, discord.ui.TextInput)
        await interaction.response.send_message(f"you said {self.words.component.value}", ephemeral=True)


class SmallBot(discord.Client):
    """A bot with a picture command, a modal, and a command without an answer."""

    def __init__(self, *, intents: discord.Intents | None = None) -> None:
        super().__init__(
            intents=intents or discord.Intents(guilds=True, guild_messages=True), guild_ready_timeout=0.1
        )
        self.tree = app_commands.CommandTree(self)
        self.heard: list[str] = []
        self.ready = asyncio.Event()  # wait_until_ready() cannot be called before the login
        self.resumed = asyncio.Event()
        self.add_dynamic_items(AgainButton)
        for command in (imagine, ask, silent, hide):
            self.tree.add_command(command)

    async def setup_hook(self) -> None:
        await self.tree.sync()

    async def on_message(self, message: discord.Message) -> None:
        self.heard.append(f"{message.author.name}: {message.content}")

    async def on_ready(self) -> None:
        self.ready.set()

    async def on_resumed(self) -> None:
        self.resumed.set()


@app_commands.command(description="Paint a picture")
@app_commands.describe(prompt="What it shows", variants="How many", size="Width by height")
async def imagine(
    interaction: Interaction, prompt: str, variants: app_commands.Range[int, 1, 9] = 1, size: str = "128x128"
) -> None:
    await interaction.response.defer()
    await interaction.edit_original_response(
        attachments=[picture()], view=shown(f"{prompt}, {variants} of {size}")
    )
    await interaction.followup.send("more words", ephemeral=True)


@imagine.autocomplete("size")
async def sizes(interaction: Interaction, current: str) -> list[app_commands.Choice[str]]:
    return [app_commands.Choice(name=size, value=size) for size in SIZES if size.startswith(current)]


@app_commands.command(description="Ask for words")
async def ask(interaction: Interaction) -> None:
    await interaction.response.send_modal(Question())


@app_commands.command(description="Say nothing")
async def silent(interaction: Interaction) -> None:
    return


@app_commands.command(description="Answer in private")
async def hide(interaction: Interaction) -> None:
    await interaction.response.defer(ephemeral=True)
    await interaction.edit_original_response(content="only you see this")
