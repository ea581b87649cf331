"""“Paint from this picture” in the menu of a message: a form whose job starts from one of its pictures."""

from __future__ import annotations

from typing import Any

import discord
from discord.app_commands import locale_str

from bot.domain.errors import UserMistake
from bot.domain.expansion import read_phrase
from bot.domain.jobs import Descent, Job, Parent, Recipe
from bot.front.answers.first_answers import open_form
from bot.front.answers.forms import Form
from bot.front.answers.modals import choice_field, modal
from bot.front.commands.imagine import filled, hint
from bot.front.gateway.command_tree import MessageMenu, make_menu
from bot.front.recipes.options import Asked, may_expand, parse_by_any, reported_with
from bot.front.recipes.settings_line import settings_in
from bot.front.recipes.variations import picture_of
from bot.front.requests.defaults import name_left_out
from bot.front.requests.intake import accept, announce, check_caps, enqueue, repeatable
from bot.front.requests.recipe_form import as_in_imagine, in_time, mask_field, names_of, recipe_fields
from bot.front.requests.standing import check_blocks
from bot.front.requests.start_pictures import KeptPicture, started_from
from bot.front.services.services import Interaction, services_of
from bot.front.uploads.message_pictures import (
    OfferedPicture,
    PicturesOffered,
    pictures_among,
    pictures_of_job,
)
from bot.front.uploads.messages import files_of, of_message, result_of
from bot.front.uploads.sent_file import SentFile

NAME = "Paint from this picture"
FORM, PICTURE = "start", "picture"


def paint_from_menu() -> MessageMenu:
    """The command."""
    return make_menu(name=locale_str(NAME), run=paint_from)


async def paint_from(interaction: Interaction, message: discord.Message) -> None:
    """Open the form; raises UserMistake `message_no_picture`, and where the person is blocked."""
    async with in_time():
        await check_blocks(interaction)
        offered = await _offered(interaction, message)
    if not offered.pictures:
        raise UserMistake("message_no_picture")
    services = services_of(interaction)
    first = offered.pictures[0]
    if len(offered.pictures) == 1 and first.size is not None:
        services.attachments.check(first.size, what=first.what)
    texts = services.texts(interaction)
    key = services.pictures_offered.keep(offered, user_id=interaction.user.id)
    choice: list[discord.ui.Item[Any]] = []
    if len(offered.pictures) > 1:
        choice = [choice_field(texts.gettext("Picture"), PICTURE, [each.name for each in offered.pictures])]
    fields = recipe_fields(texts, about=as_in_imagine(interaction))
    title = names_of(interaction).pgettext("name", NAME)
    await open_form(interaction, modal(title, f"{FORM}:{key}", *choice, *fields, mask_field(texts)))


async def _offered(interaction: Interaction, message: discord.Message) -> PicturesOffered:
    services = services_of(interaction)
    texts, private = services.texts(interaction), message.flags.ephemeral
    job_id = result_of(message, interaction.client.user.id)
    if job_id is None:
        pictures = pictures_among(files_of(message), services.attachments.reachable, texts)
        return PicturesOffered(pictures=pictures, private=private, message_id=message.id)
    job = await repeatable(interaction, job_id, privately=private)
    pictures = pictures_of_job(job, texts)
    return PicturesOffered(pictures=pictures, private=private, job_id=job_id, message_id=message.id)


async def start(
    interaction: Interaction,
    kept: str,
    *,
    prompt: str,
    negative_prompt: str = "",
    settings: str = "",
    picture: str = "0",
    mask: SentFile | None = None,
) -> None:
    """Queue a job that starts from the chosen picture."""
    services = services_of(interaction)
    offered = services.pictures_offered.find(kept, user_id=interaction.user.id)
    if not picture.isdecimal() or int(picture) >= len(offered.pictures):
        raise UserMistake("form_forgotten")
    typed, wrong = settings_in(settings, names_of(interaction))
    asked = Asked(
        prompt=prompt,
        negative_prompt=negative_prompt or None,
        **typed,
        image=True,
        mask=mask is not None,
    )
    with reported_with(wrong):
        recipe = parse_by_any(asked, services.offers)
    if may_expand(prompt) and read_phrase(prompt).count > 1:
        raise UserMistake("expansion_image")
    chosen = offered.pictures[int(picture)]
    job, unsuitable = await _queued(interaction, offered, chosen, asked, recipe, mask=mask)
    await announce(interaction, job)
    if unsuitable:
        await name_left_out(interaction, unsuitable)
    await hint(interaction, recipe.prompt)


async def _queued(
    interaction: Interaction,
    offered: PicturesOffered,
    picture: OfferedPicture,
    asked: Asked,
    recipe: Recipe,
    *,
    mask: SentFile | None,
) -> tuple[Job, list[str]]:
    """Return the stored job, and the preferences that do not suit it."""
    parent = _parent(interaction, offered, picture) if offered.job_id else None
    image = None if offered.job_id else picture.sent
    sent = [file for file in (image, mask) if file is not None]
    for file in sent:
        if file.size is not None:
            services_of(interaction).attachments.check(file.size, what=file.what)
    origin = await accept(interaction, private=offered.private, files=1 if sent else 0, parent=parent)
    if sent:
        await check_caps(interaction, origin, recipe)
    asked, recipe, unsuitable = await filled(interaction, asked, recipe)
    start = image or await _of_job(interaction, offered, picture)
    with of_message(picture.what):
        async with started_from(interaction, recipe, asked, image=start, mask=mask) as started:
            return await enqueue(interaction, started, origin), unsuitable


async def _of_job(interaction: Interaction, offered: PicturesOffered, picture: OfferedPicture) -> KeptPicture:
    """Return a picture of an earlier job, whose file is there already."""
    job = await repeatable(interaction, offered.job_id, privately=offered.private)
    size = job.recipe.width, job.recipe.height
    return KeptPicture(name=picture_of(job, picture.index), size=size)


def _parent(interaction: Interaction, offered: PicturesOffered, picture: OfferedPicture) -> Parent:
    """Return the job of the picture, with its message where everyone here can see that."""
    seen = not offered.private
    return Parent(
        job_id=offered.job_id,
        descent=Descent.VARIATION,
        index=picture.index,
        channel_id=interaction.channel_id if seen else None,
        message_id=offered.message_id if seen else None,
    )


CONTROLS = (Form(template=rf"{FORM}:(?P<kept>[0-9a-f]+)", act=start),)
