"""The forms that change a result: its words and settings, or the picture that it starts from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import discord

from bot.domain.jobs import Descent, Job, Parent, Recipe
from bot.front.answers.answers import open_form
from bot.front.answers.controls import Button, Form
from bot.front.answers.modals import choice_field, modal, picture_field
from bot.front.recipes.options import PICTURE_STRENGTH, WHOLLY, number_text
from bot.front.recipes.settings_line import options_line, settings_of
from bot.front.requests.given_pictures import Given, check_lengths, given_of, made_with
from bot.front.requests.intake import (
    accept,
    announce,
    check_caps,
    enqueue,
    parent_of,
    repeatable,
)
from bot.front.requests.recipe_form import (
    ALONE,
    asked_in,
    in_time,
    left_out,
    mask_field,
    painted_fields,
    recipe_fields,
    recipe_of,
)
from bot.front.services.request import Request
from bot.front.uploads.messages import SentFile
from bot.texts.catalogue import Texts

IMAGE, STRENGTH = "image", "strength"
USUAL = "usual"  # the strength of /imagine without one
STRENGTHS = (0.3, 0.5, PICTURE_STRENGTH, WHOLLY)  # to choose from


async def open_remix(request: Request, job_id: str, *, message: discord.Message | None = None) -> None:
    """Open the form, filled with the words and settings of the job.

    `message`, by default that of the button, shows the job. The form's id names the message, or says that the
    person alone sees it. Raises UnknownJob, also for a job that the person may not see, and UserMistake where
    they are blocked.
    """
    job, target = await repeated_in(request, job_id, message or request.message)
    fields = painted_fields(
        request,
        prompt=job.recipe.prompt,
        negative_prompt=job.recipe.negative_prompt,
        values=settings_of(job.recipe, request.services.offers),
    )
    title = request.texts.gettext("Remix")
    await open_form(request, modal(title, f"remix:{job.id}:{target}", *fields))


async def repeated_in(request: Request, job_id: str, message: discord.Message | None) -> tuple[Job, str]:
    """Return the job for a form that repeats it, and the last part of the form's id: see `open_remix`."""
    privately = message is not None and message.flags.ephemeral
    async with in_time():
        (await request.standing()).check_paints()
        job = await repeatable(request, job_id, privately=privately)
    return job, ALONE if privately or message is None else str(message.id)


async def remix(request: Request, job_id: str, target: str | None, **filled: str) -> None:
    """Queue a job of the words and settings in the form.

    `target` is the message that shows the earlier result, or `alone` where only the person sees that message;
    an older version of the bot left it out.
    """
    parent, privately = _parent(request, job_id, target)
    origin = await accept(request, private=privately, parent=parent)
    # A form is accepted even if its result has been deleted since it was opened.
    earlier = await repeatable(request, job_id, privately=privately, deleted=True)
    recipe = await recipe_of(request, earlier.recipe, **filled)
    await announce(request, await enqueue(request, recipe, origin))


async def open_remix_from(request: Request, job_id: str) -> None:
    """Open the form that repeats a result from another start picture, another mask or at another strength.

    Raises UnknownJob, also for a job that the person may not see, and UserMistake where they are blocked.
    """
    job, target = await repeated_in(request, job_id, request.message)
    texts, started = request.texts, job.recipe.init_image is not None
    values = settings_of(job.recipe, request.services.offers)
    del values[STRENGTH]
    if job.recipe.second_pass is None:  # a second pass belongs to one size
        del values["size"]
    prompt, _, settings = recipe_fields(
        texts,
        prompt=job.recipe.prompt,
        settings=options_line(values, request.names),
        about=texts.gettext("The shape of the picture decides the size. The negative prompt stays."),
    )
    about = texts.gettext("A PNG, JPEG or WebP file. Its transparent parts are repainted.")
    if started:
        about = texts.gettext("Without a file, the picture that the result started from.")
    image = picture_field(texts.gettext("Start picture"), IMAGE, description=about, required=not started)
    parts = (prompt, image, mask_field(texts), _strength_field(job.recipe, texts), settings)
    title = texts.gettext("Remix from a picture")
    await open_form(request, modal(title, f"remix_from:{job.id}:{target}", *parts))


def _strength_field(recipe: Recipe, texts: Texts) -> discord.ui.Label[Any]:
    """Return the choice of strengths; that of a result which started from a picture is among them."""
    usual = texts.gettext(
        "Usual: {strength}, or {wholly} with a mask",
        strength=number_text(PICTURE_STRENGTH),
        wholly=number_text(WHOLLY),
    )
    before = {recipe.strength} if recipe.init_image is not None else set()
    strengths = sorted({*STRENGTHS, *before})
    return choice_field(
        texts.gettext("How much to change the picture"),
        STRENGTH,
        [usual, *map(number_text, strengths)],
        values=[USUAL, *map(number_text, strengths)],
        chosen=1 + strengths.index(recipe.strength) if before else 0,
        description=texts.gettext("A little near 0, completely at 1."),
    )


async def remix_from(
    request: Request,
    job_id: str,
    target: str,
    *,
    prompt: str,
    settings: str = "",
    strength: str = USUAL,
    image: SentFile | None = None,
    mask: SentFile | None = None,
) -> None:
    """Queue a job of the form's words and settings that starts from its picture.

    Without an `image` the start picture of the earlier result stays; its mask stays too without a `mask`.
    """
    given = Given(init_image=image, mask_image=mask)
    check_lengths(request, given)
    parent, privately = _parent(request, job_id, target)
    origin = await accept(request, private=privately, files=given.files, parent=parent)
    earlier = (await repeatable(request, job_id, privately=privately, deleted=True)).recipe
    given = _with_earlier(given, earlier)
    asked, recipe = await asked_in(
        request,
        prompt=prompt,
        negative_prompt=earlier.negative_prompt,
        settings=settings if strength == USUAL else f"{STRENGTH} {strength}, {settings}",
        chosen={} if image else {"size": f"{earlier.width}x{earlier.height}"},
        earlier=earlier,
        image=given.init_image is not None,
        mask=mask is not None,
        control=given.control_image is not None,
        image_prompt=given.image_prompt is not None,
        references=given.references,
    )
    given = replace(given, **dict.fromkeys(left_out([*given.sent, *given.kept], asked)))
    if given.sent:
        await check_caps(request, origin, recipe)
    async with made_with(request, recipe, asked, given) as made:
        job = await enqueue(request, made, origin)
    await announce(request, job)


def _with_earlier(given: Given, recipe: Recipe) -> Given:
    """Return the given pictures, and those of the earlier recipe for which none was sent."""
    earlier = given_of(recipe)
    if given.init_image is not None:  # the earlier mask was drawn for another picture
        earlier = replace(earlier, mask_image=None)
    return replace(earlier, **given.sent)


def _parent(request: Request, job_id: str, target: str | None) -> tuple[Parent, bool]:
    """Return the parent of a form's job, and whether the new job is private."""
    parent = parent_of(request, job_id, Descent.REMIX)
    if target and target != ALONE:
        parent = replace(parent, channel_id=request.channel_id, message_id=int(target))
    return parent, target == ALONE or (not target and request.is_pressed_privately)


CONTROLS = (
    Button(template=r"remix:(?P<job_id>[0-9a-z]+)", act=open_remix),
    Form(template=rf"remix:(?P<job_id>[0-9a-z]+)(?::(?P<target>[0-9]{{1,20}}|{ALONE}))?", act=remix),
    Form(template=rf"remix_from:(?P<job_id>[0-9a-z]+):(?P<target>[0-9]{{1,20}}|{ALONE})", act=remix_from),
)
