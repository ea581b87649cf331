"""“Paint from this picture” and the other commands in the menu of a message that give its picture.

Each opens a form; the job starts from a picture of the message, keeps its composition, has it as a prompt, or
changes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import discord
from discord.app_commands import locale_str

from bot.domain.errors import UserMistake
from bot.domain.expansion import read_phrase
from bot.domain.jobs import REFERENCES, Descent, Job, Parent, Recipe
from bot.front.answers.answers import open_form
from bot.front.answers.controls import Form
from bot.front.answers.modals import choice_field, modal
from bot.front.commands.imagine import CONTROL_NAMES, control_types_of, filled, hint
from bot.front.gateway.command_tree import MessageMenu, make_menu
from bot.front.recipes.options import Asked, may_expand, parse_by_any, reported_with
from bot.front.recipes.settings_line import settings_in
from bot.front.recipes.variations import picture_of
from bot.front.requests.defaults import name_left_out
from bot.front.requests.given_pictures import Given, KeptPicture, check_lengths, made_with
from bot.front.requests.intake import accept, announce, check_caps, enqueue, repeatable
from bot.front.requests.recipe_form import as_in_imagine, in_time, mask_field, recipe_fields, text_above
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
from sdjax_engine.errors import InvalidRequest

NAME = "Paint from this picture"
COMPOSITION = "Keep this composition"
LIKE = "Like this picture"
CHANGE = "Change this picture"
FORM, COMPOSITION_FORM, LIKE_FORM, CHANGE_FORM, PICTURE = "start", "composition", "like", "change", "picture"
KIND = "control_type"


def paint_from_menu() -> MessageMenu:
    """The command whose pictures start from one of the message."""
    return make_menu(name=locale_str(NAME), run=paint_from)


def composition_menu() -> MessageMenu:
    """The command whose pictures keep the composition of one of the message, by a ControlNet."""
    return make_menu(name=locale_str(COMPOSITION), run=keep_composition)


def like_menu() -> MessageMenu:
    """The command whose pictures have one of the message as a prompt, by an IP-Adapter."""
    return make_menu(name=locale_str(LIKE), run=paint_like)


def change_menu() -> MessageMenu:
    """The command that changes a picture of the message as a sentence says, by a reference picture."""
    return make_menu(name=locale_str(CHANGE), run=change_picture)


async def paint_from(request: Request, message: discord.Message) -> None:
    """Open the form; raises UserMistake `message_no_picture`, and where the person is blocked."""
    await _open(request, message, (NAME, FORM), mask_field(request.texts))


async def keep_composition(request: Request, message: discord.Message) -> None:
    """Open the form; raises as `paint_from`, and InvalidRequest where no model has a ControlNet now."""
    texts, offers = request.texts, request.services.offers
    kinds = control_types_of(offers)
    if not kinds:
        raise InvalidRequest("no_controlnets", model=offers[0].model)
    names = [texts.gettext(CONTROL_NAMES[kind].message) for kind in kinds]
    values = [kind.value for kind in kinds]
    choice = choice_field(texts.gettext("What to keep of the picture"), KIND, names, values=values)
    await _open(request, message, (COMPOSITION, COMPOSITION_FORM), choice)


async def paint_like(request: Request, message: discord.Message) -> None:
    """Open the form; raises as `paint_from`, and InvalidRequest where no model takes image prompts now."""
    offers = request.services.offers
    if not any(offer.image_prompts for offer in offers):
        raise InvalidRequest("no_image_prompts", model=offers[0].model)
    await _open(request, message, (LIKE, LIKE_FORM))


async def change_picture(request: Request, message: discord.Message) -> None:
    """Open the form; raises as `paint_from`, and InvalidRequest where no model takes references now."""
    texts, offers = request.texts, request.services.offers
    if not any(offer.references for offer in offers):
        raise InvalidRequest("no_references", model=offers[0].model)
    above = texts.gettext("Say what to change in a sentence, such as “make the coat red”.")
    await _open(request, message, (CHANGE, CHANGE_FORM), above=above)


async def _open(
    request: Request,
    message: discord.Message,
    named: tuple[str, str],
    *last: discord.ui.Item[Any],
    above: str = "",
) -> None:
    """Open the form of a menu and an id: a text `above`, the fields of a recipe, and the `last` ones."""
    async with in_time():
        (await request.standing()).check_paints()
        offered = await _offered(request, message)
    if not offered.pictures:
        raise UserMistake("message_no_picture")
    first = offered.pictures[0]
    if len(offered.pictures) == 1 and first.size is not None:
        request.services.attachments.check(first.size, what=first.what)
    texts, (name, form) = request.texts, named
    key = request.services.kept_pictures.keep(offered, user_id=request.person.id)
    choice: list[discord.ui.Item[Any]] = []
    if len(offered.pictures) > 1:
        choice = [choice_field(texts.gettext("Picture"), PICTURE, [each.name for each in offered.pictures])]
    fields = recipe_fields(texts, about=as_in_imagine(request))
    title = request.names.pgettext("name", name)
    await open_form(request, modal(title, f"{form}:{key}", *text_above(above), *choice, *fields, *last))


async def _offered(request: Request, message: discord.Message) -> MessagePictures:
    texts, private = request.texts, message.flags.ephemeral
    job_id = result_of(message, request.bot_id)
    if job_id is None:
        pictures = pictures_among(files_of(message), request.services.attachments.reachable, texts)
        return MessagePictures(pictures=pictures, private=private, message_id=message.id)
    job = await repeatable(request, job_id, privately=private)
    pictures = pictures_of_job(job, texts)
    return MessagePictures(pictures=pictures, private=private, job_id=job_id, message_id=message.id)


async def start(request: Request, kept: str, *, mask: SentFile | None = None, **filled: Any) -> None:
    """Queue a job that starts from the chosen picture."""
    await _paint(request, kept, "init_image", Given(mask_image=mask), **filled)


async def keep(request: Request, kept: str, *, control_type: str = "", **filled: Any) -> None:
    """Queue a job that keeps the composition of the chosen picture; a type in its settings counts first."""
    await _paint(
        request, kept, "control_image", Given(), chosen={KIND: control_type} if control_type else {}, **filled
    )


async def like(request: Request, kept: str, **filled: Any) -> None:
    """Queue a job whose prompt is the chosen picture, beside the words."""
    await _paint(request, kept, "image_prompt", Given(), **filled)


async def change(request: Request, kept: str, **filled: Any) -> None:
    """Queue a job that changes the chosen picture as its words say."""
    await _paint(request, kept, REFERENCES[0], Given(), **filled)


async def _paint(
    request: Request,
    kept: str,
    field: str,
    given: Given,
    *,
    prompt: str,
    negative_prompt: str = "",
    settings: str = "",
    picture: str = "0",
    chosen: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Queue a job whose given picture `field` is the chosen one."""
    offered = request.services.kept_pictures.find(kept, user_id=request.person.id)
    if not picture.isdecimal() or int(picture) >= len(offered.pictures):
        raise UserMistake("form_forgotten")
    typed, wrong = settings_in(settings, request.names)
    asked = Asked(
        prompt=prompt,
        negative_prompt=negative_prompt or None,
        **{**chosen, **typed},
        image=field == "init_image",
        mask=given.mask_image is not None,
        control=field == "control_image",
        image_prompt=field == "image_prompt",
        references=int(field in REFERENCES),
    )
    with reported_with(wrong):
        recipe = parse_by_any(asked, request.services.offers)
    if may_expand(prompt) and read_phrase(prompt).count > 1:
        raise UserMistake("expansion_image")
    one = offered.pictures[int(picture)]
    files: dict[str, Any] = {} if offered.job_id else {field: one.sent}
    job, unsuitable = await _queued(
        request, offered, one, asked, recipe=recipe, field=field, given=replace(given, **files)
    )
    await announce(request, job)
    if unsuitable:
        await name_left_out(request, unsuitable)
    await hint(request, recipe.prompt)


async def _queued(
    request: Request,
    offered: MessagePictures,
    picture: MessagePicture,
    asked: Asked,
    *,
    recipe: Recipe,
    field: str,
    given: Given,
) -> tuple[Job, list[str]]:
    """Return the stored job, and the preferences that do not suit it.

    `field` is what the picture is given as; `given` lacks a picture of a job.
    """
    parent = _parent(request, offered, picture) if offered.job_id else None
    check_lengths(request, given)
    origin = await accept(request, private=offered.private, files=given.files, parent=parent)
    if given.sent:
        await check_caps(request, origin, recipe)
    asked, recipe, unsuitable = await filled(request, asked, recipe)
    if offered.job_id:
        mine: dict[str, Any] = {field: await _of_job(request, offered, picture)}
        given = replace(given, **mine)
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


CONTROLS = (
    Form(template=rf"{FORM}:(?P<kept>[0-9a-f]+)", act=start),
    Form(template=rf"{COMPOSITION_FORM}:(?P<kept>[0-9a-f]+)", act=keep),
    Form(template=rf"{LIKE_FORM}:(?P<kept>[0-9a-f]+)", act=like),
    Form(template=rf"{CHANGE_FORM}:(?P<kept>[0-9a-f]+)", act=change),
)
