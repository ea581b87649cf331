"""The menu that shows a person's private pictures to them again."""

from __future__ import annotations

import io
import re
from typing import Any, Self

import discord

from bot.delivery.layout import layout
from bot.delivery.pictures import fit
from bot.delivery.render import MessageContent, render, without_picture
from bot.errors import MissingArtifact, UnknownJob, UserMistake
from bot.front.commands.history import SHOW, can_be_shown
from bot.front.first_answers import acknowledge
from bot.front.parts import Interaction, parts_of, sender_of
from bot.front.views.pressing import pressed

LIMIT = discord.utils.DEFAULT_FILE_SIZE_LIMIT_BYTES  # what every place takes


async def show_again(interaction: Interaction, job_id: str) -> None:
    """Answer with a job's pictures and buttons, to its owner alone.

    Raises UnknownJob where it is somebody else's, UserMistake `no_picture` where there is none to show, and
    UserMistake where the person asks too often.
    """
    parts = parts_of(interaction)
    parts.pace.admit(sender_of(interaction))
    await acknowledge(interaction, private=True)
    job = await parts.store.jobs.get(job_id)
    if job.origin.user_id != interaction.user.id:
        raise UnknownJob(job=job_id)
    if not can_be_shown(job):
        raise UserMistake("no_picture")
    texts = parts.texts(interaction)
    content = render(job, None, texts, offers=parts.offers)
    try:
        files = await _files(interaction, content)
    except MissingArtifact:
        await interaction.edit_original_response(view=layout(without_picture(content, texts)))
        return
    await interaction.edit_original_response(
        view=layout(content, file_names=[file.filename for file in files]), attachments=files
    )


async def _files(interaction: Interaction, content: MessageContent) -> list[discord.File]:
    """Each of the pictures of `content` in a file; all of them together small enough for every place."""
    parts = parts_of(interaction)
    made = []
    for picture in content.pictures:
        files = [await parts.artifacts.get(name) for name in picture.artifacts]
        fitted = await parts.fitting.run(fit, files, LIMIT // len(content.pictures))
        made.append(discord.File(io.BytesIO(fitted.data), filename=picture.stem + fitted.suffix))
    return made


class ShowMenu(discord.ui.DynamicItem[discord.ui.Select[Any]], template=SHOW):
    """Shows the chosen job's pictures to whoever asked for them."""

    @classmethod
    async def from_custom_id(
        cls, _interaction: Interaction, item: discord.ui.Item[Any], match: re.Match[str], /
    ) -> Self:
        """The menu that was used."""
        if not isinstance(item, discord.ui.Select):
            raise TypeError(f"{match[0]} is not a menu")
        return cls(item)

    async def callback(self, interaction: Interaction) -> None:
        """Show them."""
        async with pressed(interaction):
            await show_again(interaction, self.item.values[0])
