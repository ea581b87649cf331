"""The menu that shows a person's results again."""

from __future__ import annotations

import functools
import io
from collections.abc import Sequence

import discord

from bot.delivery.content import MessageContent
from bot.delivery.layout import layout
from bot.delivery.pictures import fit
from bot.delivery.render import render, without_picture
from bot.errors import MissingArtifact, UnknownJob, UserMistake
from bot.front.commands.history import SHOW, can_be_shown
from bot.front.first_answers import acknowledge
from bot.front.services import Interaction, sender_of, services_of
from bot.front.views.items import Menu

LIMIT = discord.utils.DEFAULT_FILE_SIZE_LIMIT_BYTES  # what every place takes


async def show_again(interaction: Interaction, job_id: str) -> None:
    """Answer with a job's pictures and buttons, to its owner alone.

    Raises UnknownJob for another person's job, UserMistake `no_picture` where there is none to show, and
    UserMistake where the person asks too often.
    """
    services = services_of(interaction)
    services.pace.admit(sender_of(interaction))
    await acknowledge(interaction, private=True)
    job = await services.store.jobs.get(job_id)
    if job.origin.user_id != interaction.user.id:
        raise UnknownJob(job=job_id)
    if not can_be_shown(job):
        raise UserMistake("no_picture")
    texts = services.texts(interaction)
    content = render(job, None, texts, offers=services.offers)
    try:
        files = await _files(interaction, content)
    except MissingArtifact:
        await interaction.edit_original_response(view=layout(without_picture(content, texts)))
        return
    await interaction.edit_original_response(
        view=layout(content, file_names=[file.filename for file in files]), attachments=files
    )


async def _files(interaction: Interaction, content: MessageContent) -> list[discord.File]:
    """Return each picture of `content` as a file, together small enough for every server."""
    services = services_of(interaction)
    made = []
    for picture in content.pictures:
        files = [await services.artifacts.get(name) for name in picture.artifacts]
        fitted = await services.fitting.run(
            functools.partial(fit, files, LIMIT // len(content.pictures), first=picture.first)
        )
        made.append(discord.File(io.BytesIO(fitted.data), filename=picture.stem + fitted.suffix))
    return made


async def show_chosen(interaction: Interaction, job_ids: Sequence[str]) -> None:
    """Show the chosen job."""
    await show_again(interaction, job_ids[0])


class ShowMenu(Menu, template=SHOW):
    """Shows a job's pictures to the person who asked for them."""

    act = staticmethod(show_chosen)
