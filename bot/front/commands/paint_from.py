"""“Paint from this picture” in the menu of a message: a form whose job starts from one of its pictures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import discord
from discord.app_commands import locale_str

from bot.domain.errors import UserMistake
from bot.domain.expansion import read_phrase
from bot.domain.jobs import Descent, Job, Parent, Recipe
from bot.front.answers.answers import open_form
from bot.front.answers.controls import Form
from bot.front.answers.modals import choice_field, modal
from bot.front.commands.imagine import filled, hint
from bot.front.gateway.command_tree import MessageMenu, make_menu
from bot.front.recipes.options import Asked, may_expand, parse_by_any, reported_with
from bot.front.recipes.settings_line import settings_in
from bot.front.recipes.variations import picture_of
from bot.front.requests.defaults import name_left_out
from bot.front.requests.given_pictures import Given, KeptPicture, check_lengths, made_with
from bot.front.requests.intake import accept, announce, check_caps, enqueue, repeatable
from bot.front.requests.recipe_form import as_in_imagine, in_time, mask_field, recipe_fields
from bot.front.services.request import Request
from bot.front.uploads.messages import (
    MessagePicture,
    MessagePictures,
    SentFile,
    files_of,
    of_message,
    pictures_among,
    pictures_of_job,
    result_of,
)

NAME = "Paint from this picture"
FORM, PICTURE = "start", "picture"


def paint_from_menu() -> MessageMenu:
    """The command."""
    return make_menu(name=locale_str(NAME), run=paint_from)


async def paint_from(request: Request, message: discord.Message) -> None:
    """Open the form; raises UserMistake `message_no_picture`, and where the person is blocked."""
    async with in_time():
        (await request.standing()).check_paints()
        offered = await _offered(request, message)
    if not offered.pictures:
        raise UserMistake("message_no_picture")
    first = offered.pictures[0]
    if len(offered.pictures) == 1 and first.size is not None:
        request.services.attachments.check(first.size, what=first.what)
    texts = request.texts
    key = request.services.kept_pictures.keep(offered, user_id=request.person.id)
    choice: list[discord.ui.Item[Any]] = []
    if len(offered.pictures) > 1:
        choice = [choice_field(texts.gettext("Picture"), PICTURE, [each.name for each in offered.pictures])]
    fields = recipe_fields(texts, about=as_in_imagine(request))
    title = request.names.pgettext("name", NAME)
    await open_form(request, modal(title, f"{FORM}:{key}", *choice, *fields, mask_field(texts)))


async def _offered(request: Request, message: discord.Message) -> MessagePictures:
    texts, private = request.texts, message.flags.ephemeral
    job_id = result_of(message, request.bot_id)
    if job_id is None:
        pictures = pictures_among(files_of(message), request.services.attachments.reachable, texts)
        return MessagePictures(pictures=pictures, private=private, message_id=message.id)
    job = await repeatable(request, job_id, privately=private)
    pictures = pictures_of_job(job, texts)
    return MessagePictures(pictures=pictures, private=private, job_id=job_id, message_id=message.id)


async def start(
    request: Request,
    kept: str,
    *,
    prompt: str,
    negative_prompt: str = "",
    settings: str = "",
    picture: str = "0",
    mask: SentFile | None = None,
) -> None:
    """Queue a job that starts from the chosen picture."""
    offered = request.services.kept_pictures.find(kept, user_id=request.person.id)
    if not picture.isdecimal() or int(picture) >= len(offered.pictures):
        raise UserMistake("form_forgotten")
    typed, wrong = settings_in(settings, request.names)
    asked = Asked(
        prompt=prompt,
        negative_prompt=negative_prompt or None,
        **typed,
        image=True,
        mask=mask is not None,
    )
    with reported_with(wrong):
        recipe = parse_by_any(asked, request.services.offers)
    if may_expand(prompt) and read_phrase(prompt).count > 1:
        raise UserMistake("expansion_image")
    chosen = offered.pictures[int(picture)]
    job, unsuitable = await _queued(request, offered, chosen, asked, recipe, mask=mask)
    await announce(request, job)
    if unsuitable:
        await name_left_out(request, unsuitable)
    await hint(request, recipe.prompt)


async def _queued(
    request: Request,
    offered: MessagePictures,
    picture: MessagePicture,
    asked: Asked,
    recipe: Recipe,
    *,
    mask: SentFile | None,
) -> tuple[Job, list[str]]:
    """Return the stored job, and the preferences that do not suit it."""
    parent = _parent(request, offered, picture) if offered.job_id else None
    image = None if offered.job_id else picture.sent
    given = Given(init_image=image, mask_image=mask)
    check_lengths(request, given)
    origin = await accept(request, private=offered.private, files=given.files, parent=parent)
    if given.sent:
        await check_caps(request, origin, recipe)
    asked, recipe, unsuitable = await filled(request, asked, recipe)
    if image is None:
        given = replace(given, init_image=await _of_job(request, offered, picture))
    with of_message(picture.what):
        async with made_with(request, recipe, asked, given) as made:
            return await enqueue(request, made, origin), unsuitable


async def _of_job(request: Request, offered: MessagePictures, picture: MessagePicture) -> KeptPicture:
    """Return a picture of an earlier job, whose file is there already."""
    job = await repeatable(request, offered.job_id, privately=offered.private)
    size = job.recipe.width, job.recipe.height
    return KeptPicture(name=picture_of(job, picture.index), size=size)


def _parent(request: Request, offered: MessagePictures, picture: MessagePicture) -> Parent:
    """Return the job of the picture, with its message where everyone here can see that."""
    seen = not offered.private
    return Parent(
        job_id=offered.job_id,
        descent=Descent.VARIATION,
        index=picture.index,
        channel_id=request.channel_id if seen else None,
        message_id=offered.message_id if seen else None,
    )


CONTROLS = (Form(template=rf"{FORM}:(?P<kept>[0-9a-f]+)", act=start),)
