"""A small discord.py bot without an engine, whose messages have every kind of content for the page."""

from __future__ import annotations

import io
from typing import Any

import discord
from discord import app_commands
from PIL import Image

from bot.front.gateway.command_tree import FileCommand
from bot.front.uploads.messages import FILE_TYPES

KOREAN = {
    "Paint a picture": "그림을 그립니다",
    "What the picture shows": "그림에 담을 내용",
    "Repeat This": "이것을 다시",
}
SIZES = ("128x128", "192x128", "128x192")


def picture(colour: str, name: str) -> discord.File:
    """A plain 128 × 128 picture."""
    file = io.BytesIO()
    Image.new("RGB", (128, 128), colour).save(file, "PNG")
    file.seek(0)
    return discord.File(file, name)


class PaintedView(discord.ui.LayoutView):
    """The answer of `/imagine`: text, pictures and three buttons."""

    def __init__(self, bot: PageBot, prompt: str, variants: int) -> None:
        super().__init__(timeout=None)
        self.bot = bot
        text = discord.ui.TextDisplay[PaintedView](f"**{discord.utils.escape_markdown(prompt)}**\n-# seed 7")
        gallery = discord.ui.MediaGallery[PaintedView](
            *(
                discord.MediaGalleryItem(f"attachment://{index}.png", description=prompt)
                for index in range(variants)
            )
        )
        row = discord.ui.ActionRow[PaintedView](
            Pressed(bot, "Again", discord.ButtonStyle.primary),
            Pressed(bot, "Delete", discord.ButtonStyle.danger),
            Pressed(bot, "Dead", discord.ButtonStyle.secondary),
        )
        self.add_item(discord.ui.Container(text, gallery, row, accent_color=discord.Color(0x2F7D5B)))


class Pressed(discord.ui.Button[PaintedView]):
    """A button that does what its label says; "Dead" never answers."""

    def __init__(self, bot: PageBot, label: str, style: discord.ButtonStyle) -> None:
        super().__init__(label=label, style=style, custom_id=label.lower())
        self.bot = bot

    async def callback(self, interaction: discord.Interaction) -> None:
        self.bot.heard.append((interaction.user.name, f"pressed {self.label}"))
        if self.label == "Again":
            await paint(self.bot, interaction, "again", 1, private=False)
        elif self.label == "Delete":
            await interaction.response.defer()
            await interaction.delete_original_response()


class VariantMenu(discord.ui.Select[discord.ui.View]):
    """A menu that says which variant was chosen."""

    def __init__(self, bot: PageBot) -> None:
        options = [
            discord.SelectOption(label=f"Variant {number}", description=f"Seed {number + 6}", emoji="🎲")
            for number in range(1, 4)
        ]
        super().__init__(custom_id="variants", placeholder="Choose a variant", options=options)
        self.bot = bot

    async def callback(self, interaction: discord.Interaction) -> None:
        self.bot.heard.append((interaction.user.name, self.values))
        await interaction.response.send_message(f"You chose {self.values[0]}", ephemeral=True)
        if interaction.message is not None:
            await interaction.message.edit(allowed_mentions=discord.AllowedMentions.none())


class SeveralMenu(discord.ui.Select[discord.ui.View]):
    """A menu of long rows, of which several are chosen at once."""

    def __init__(self, bot: PageBot) -> None:
        options = [
            discord.SelectOption(label=f"Row {number} {'of many words ' * 6}", value=str(number))
            for number in range(3)
        ]
        super().__init__(placeholder="Choose rows", options=options, min_values=1, max_values=3)
        self.bot = bot

    async def callback(self, interaction: discord.Interaction) -> None:
        self.bot.heard.append((interaction.user.name, self.values))
        await interaction.response.send_message(f"You chose {len(self.values)}", ephemeral=True)


class SettingsForm(discord.ui.Modal, title="Settings"):
    """A form with one labelled input."""

    motto: discord.ui.TextInput[SettingsForm] = discord.ui.TextInput(label="Motto", max_length=40)

    async def on_submit(self, interaction: discord.Interaction) -> None:
        await interaction.response.send_message(f"Your motto: {self.motto.value}", ephemeral=True)


class OrderForm(discord.ui.Modal, title="Order"):
    """A form with a part of each kind that is chosen."""

    frame: discord.ui.Label[OrderForm] = discord.ui.Label(
        text="Frame",
        description="How the edges look",
        component=discord.ui.RadioGroup(
            options=[
                discord.RadioGroupOption(label="None", value="none", default=True),
                discord.RadioGroupOption(label="Oak", value="oak", description="Brown wood"),
            ]
        ),
    )
    days: discord.ui.Label[OrderForm] = discord.ui.Label(
        text="Days",
        component=discord.ui.CheckboxGroup(
            options=[discord.CheckboxGroupOption(label=day, value=day) for day in ("Monday", "Friday")]
        ),
    )
    hurry: discord.ui.Label[OrderForm] = discord.ui.Label(text="In a hurry", component=discord.ui.Checkbox())
    sketches: discord.ui.Label[OrderForm] = discord.ui.Label(
        text="Sketches", component=discord.ui.FileUpload(max_values=2)
    )

    async def on_submit(self, interaction: discord.Interaction) -> None:
        frame, days, hurry, sketches = (
            item.component for item in (self.frame, self.days, self.hurry, self.sketches)
        )
        assert isinstance(frame, discord.ui.RadioGroup)
        assert isinstance(days, discord.ui.CheckboxGroup)
        assert isinstance(hurry, discord.ui.Checkbox)
        assert isinstance(sketches, discord.ui.FileUpload)
        names = [file.filename for file in sketches.values]
        said = f"{frame.value} {days.values} {hurry.value} {names}"
        await interaction.response.send_message(said, ephemeral=True)


class Korean(app_commands.Translator):
    """Descriptions in Korean, for the page's choice of languages."""

    async def translate(
        self,
        string: app_commands.locale_str,
        locale: discord.Locale,
        context: app_commands.TranslationContextTypes,
    ) -> str | None:
        return KOREAN.get(string.message) if locale is discord.Locale.korean else None


async def paint(
    bot: PageBot, interaction: discord.Interaction, prompt: str, variants: int, *, private: bool
) -> None:
    """Defer, then edit the answer into pictures, as the real bot does."""
    await interaction.response.defer(ephemeral=private, thinking=True)
    colours = ("red", "green", "blue", "yellow")
    files = [picture(colours[index % 4], f"{index}.png") for index in range(variants)]
    await interaction.edit_original_response(view=PaintedView(bot, prompt, variants), attachments=files)


class PageBot(discord.Client):
    """The bot; `heard` records the requests of members."""

    def __init__(self) -> None:
        super().__init__(
            intents=discord.Intents(guilds=True),
            allowed_mentions=discord.AllowedMentions.none(),
            guild_ready_timeout=0.1,  # discord.py waits two seconds for further servers
        )
        self.tree = app_commands.CommandTree(self)
        self.heard: list[tuple[str, Any]] = []
        add_imagine(self)
        add_retouch(self)
        add_others(self)

    async def setup_hook(self) -> None:
        await self.tree.set_translator(Korean())
        await self.tree.sync()


def add_imagine(bot: PageBot) -> None:
    """`/imagine`, with an option of every kind."""

    @bot.tree.command(description="Paint a picture")
    @app_commands.describe(
        prompt="What the picture shows",
        variants="How many pictures",
        size="Width and height",
        sampler="The sampling method",
        guidance="How closely to follow the prompt",
        private="Only you see the answer",
    )
    @app_commands.choices(sampler=[app_commands.Choice(name=name, value=name) for name in ("ddim", "pndm")])
    async def imagine(  # noqa: PLR0917 - discord.py reads the options off the signature
        interaction: discord.Interaction,
        prompt: app_commands.Range[str, 1, 200],
        variants: app_commands.Range[int, 1, 9] = 1,
        size: str = SIZES[0],
        sampler: str = "ddim",
        guidance: app_commands.Range[float, 0, 30] = 4.0,
        private: bool = False,
    ) -> None:
        asked = {"prompt": prompt, "variants": variants, "size": size, "sampler": sampler}
        bot.heard.append((interaction.user.name, asked | {"guidance": guidance, "private": private}))
        await paint(bot, interaction, prompt, variants, private=private)

    @imagine.autocomplete("size")
    async def sizes(_: discord.Interaction, current: str) -> list[app_commands.Choice[str]]:
        return [app_commands.Choice(name=f"{size} pixels", value=size) for size in SIZES if current in size]


def add_retouch(bot: PageBot) -> None:
    """`/retouch`, which takes pictures and answers with a menu."""

    @app_commands.describe(
        prompt="What to make of it", image="What to start from", mask="What to change", title="Its name"
    )
    async def retouch(
        interaction: discord.Interaction,
        prompt: str,
        image: discord.Attachment,
        mask: discord.Attachment | None = None,
        title: str = "",
    ) -> None:
        files = {file.filename: await file.read() for file in (image, mask) if file is not None}
        bot.heard.append((interaction.user.name, {"prompt": prompt, "files": files}))
        view = discord.ui.View(timeout=None).add_item(VariantMenu(bot))
        await interaction.response.send_message("Retouched", file=picture("blue", "0.png"), view=view)

    types = {FILE_TYPES: {"image": ["image"], "mask": ["image"]}}
    made = FileCommand(name="retouch", description="Change a picture", callback=retouch, extras=types)
    bot.tree.add_command(made)


def add_others(bot: PageBot) -> None:
    """Add commands for single features of the page."""

    @bot.tree.command(description="Say something, as it is")
    async def say(interaction: discord.Interaction, text: str, role: discord.Role | None = None) -> None:
        said = text if role is None else f"{text} {role.mention}"
        await interaction.response.send_message(said, allowed_mentions=discord.AllowedMentions.none())

    @bot.tree.command(description="Choose rows")
    async def rows(interaction: discord.Interaction) -> None:
        view = discord.ui.View(timeout=None).add_item(SeveralMenu(bot))
        await interaction.response.send_message("Rows", view=view, ephemeral=True)

    @bot.tree.command(description="Never answer")
    async def ignore(interaction: discord.Interaction) -> None:
        bot.heard.append((interaction.user.name, "ignore"))

    @bot.tree.command(description="Fill in a form")
    async def form(interaction: discord.Interaction) -> None:
        await interaction.response.send_modal(SettingsForm())

    @bot.tree.command(description="Order a picture")
    async def order(interaction: discord.Interaction) -> None:
        await interaction.response.send_modal(OrderForm())
