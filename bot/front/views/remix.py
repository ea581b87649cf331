"""The button that opens a result's words and settings in a form, and paints what comes back."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import discord

from bot.errors import StoreUnavailable, UnknownJob, UserMistake
from bot.front.answers import add_page, report
from bot.front.first_answers import open_form
from bot.front.modals import modal, text_field
from bot.front.options import Asked, find_offer, parse, with_second_pass
from bot.front.requests import (
    accept,
    announce,
    enqueue,
    parent_of,
    pressed_privately,
    repeatable,
)
from bot.front.services import Interaction, services_of
from bot.front.settings_line import read_settings_line, settings_line
from bot.front.styles import style_of
from bot.front.styling import NO_STYLE, STYLE, styled
from bot.front.views.forms import Form
from bot.front.views.items import Button
from bot.jobs import Descent, Job, Recipe
from bot.texts import Texts
from sdjax_engine.errors import InvalidRequest
from sdjax_engine.request import MAX_PROMPT_CHARACTERS

LOOK_SECONDS = 2.0  # Discord takes a form only as the first answer, within 3 s
PROMPT, NEGATIVE_PROMPT, SETTINGS = "prompt", "negative_prompt", "settings"
SETTINGS_CHARACTERS = 600


async def ask(interaction: Interaction, job_id: str) -> None:
    """Open the form, filled with the words and settings of the job.

    Raises UnknownJob, also for a job that the person may not see.
    """
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            job = await repeatable(interaction, job_id)
    except TimeoutError:
        raise StoreUnavailable("a job could not be read in time for a form") from None
    if job.deleted_at is not None:
        raise UnknownJob(job=job_id)
    texts = services_of(interaction).texts(interaction)
    await open_form(interaction, _form(job, texts, names=_names(interaction)))


def _form(job: Job, texts: Texts, *, names: Texts) -> discord.ui.Modal:
    long = discord.TextStyle.paragraph
    words = text_field(
        texts.gettext("Prompt"), PROMPT, job.recipe.prompt, style=long, max_length=MAX_PROMPT_CHARACTERS
    )
    without = text_field(
        texts.gettext("Not in the picture"),
        NEGATIVE_PROMPT,
        job.recipe.negative_prompt,
        style=long,
        required=False,
        max_length=MAX_PROMPT_CHARACTERS,
    )
    settings = text_field(
        texts.gettext("Settings"),
        SETTINGS,
        settings_line(job.recipe, names)[:SETTINGS_CHARACTERS],
        required=False,
        max_length=SETTINGS_CHARACTERS,
        description=texts.gettext("What you leave out has the model's default; no seed is a random one."),
    )
    return modal(texts.gettext("Remix"), f"remix:{job.id}", words, without, settings)


async def remix(
    interaction: Interaction, job_id: str, *, prompt: str, negative_prompt: str = "", settings: str = ""
) -> None:
    """Queue a job of the words and settings in the form; what was typed is given back if it is refused."""
    parent = parent_of(interaction, job_id, Descent.REMIX)
    try:
        origin = await accept(interaction, private=pressed_privately(interaction), parent=parent)
        earlier = (await repeatable(interaction, job_id)).recipe
        recipe = await remixed(
            earlier, interaction, prompt=prompt, negative_prompt=negative_prompt, settings=settings
        )
        job = await enqueue(interaction, recipe, origin)
    except (InvalidRequest, UserMistake) as error:
        await report(interaction, error)
        typed = "\n\n".join(filter(None, (prompt, negative_prompt, settings)))
        await add_page(interaction, typed.replace("```", "\u02cb\u02cb\u02cb"))
        return
    await announce(interaction, job)


async def remixed(
    earlier: Recipe, interaction: Interaction, *, prompt: str, negative_prompt: str, settings: str
) -> Recipe:
    """Return the recipe of the form; a start picture and its mask stay.

    A style in the settings puts its texts around the words. Raises as `parse` and `style_of`.
    """
    typed = read_settings_line(settings, _names(interaction))
    started = earlier.init_image is not None
    asked = Asked(
        prompt=prompt,
        negative_prompt=negative_prompt,
        **{"model": earlier.model, **typed, STYLE: None},
        image=started,
        mask=earlier.mask_image is not None,
    )
    if typed.get(STYLE) not in (None, NO_STYLE):
        asked = styled(asked, await style_of(interaction, typed[STYLE]))
    recipe = parse(asked, services_of(interaction).offers)
    if recipe.seed == earlier.seed:
        recipe = replace(recipe, variations=earlier.variations)
    if not started:
        return recipe
    strength = recipe.strength if "strength" in typed else earlier.strength
    recipe = with_second_pass(recipe, asked, find_offer(recipe.model, services_of(interaction).offers))
    return replace(recipe, init_image=earlier.init_image, mask_image=earlier.mask_image, strength=strength)


def _names(interaction: Interaction) -> Texts:
    """Return the texts with the names of options that the person's Discord shows."""
    return Texts.for_locale(str(interaction.locale))


class RemixButton(Button, template=r"remix:(?P<job_id>[0-9a-z]+)"):
    """For any person who sees the pictures; the new job and its message are theirs."""

    act = staticmethod(ask)


REMIX_FORM = Form(template=r"remix:(?P<job_id>[0-9a-z]+)", act=remix)
