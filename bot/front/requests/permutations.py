"""A prompt with alternatives: the form that shows number and cost, and one job for each combination.

The form holds all that was asked for, so it works after a restart.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import aiohttp
import discord

from bot.domain.errors import StoreUnavailable, UserMistake
from bot.domain.expansion import PLACE, Phrase
from bot.domain.jobs import Origin, Recipe
from bot.front.answers.answers import FORM_READ_SECONDS, UNTOLD, add, open_form, page, sentence_for
from bot.front.answers.controls import Form
from bot.front.answers.modals import CHECKED, checkbox_field, modal
from bot.front.recipes.options import Asked, find_offer, parse, parse_by_any, reported_with
from bot.front.recipes.settings_line import options_line, settings_in
from bot.front.recipes.style import placed
from bot.front.recipes.wildcard import read_few
from bot.front.requests.defaults import name_left_out, preferred
from bot.front.requests.intake import accept, announce, enqueue, preferences_of
from bot.front.requests.library import written_out
from bot.front.requests.recipe_form import as_in_imagine, recipe_fields, text_above
from bot.front.services.request import Request
from bot.moderation.limits import places_of
from bot.texts.catalogue import Texts
from bot.texts.markup import shown
from sdjax_engine.errors import InvalidRequest

log = logging.getLogger(__name__)

SHOWN_PROMPTS = 5
SHOWN_PROMPT = 80
EXTERNAL_PROMPTS = 4
"""Outside the bot's servers, Discord takes five messages after the answer: 3 prompts, a hint, a refusal."""
FORM = "permutations"
PRIVATE, PUBLIC = "private", "public"


async def ask_permutations(request: Request, asked: Asked, *, private: bool) -> bool:
    """Open the form with the number of prompts and what they cost; return False for one prompt only.

    Raises UserMistake `expansion_many` for more prompts than the person may ask for at once,
    `expansion_image` for a request with a given picture, and where the person is blocked.
    """
    phrase = read_few(asked.prompt, most=_most(request))
    if phrase.count == 1:
        return False
    if asked.image or asked.control or asked.image_prompt or asked.references:
        raise UserMistake("expansion_image")
    try:
        async with asyncio.timeout(FORM_READ_SECONDS):
            (await request.standing()).check_paints()
            _, recipe, _ = await _around(request, asked)
    except TimeoutError:
        raise StoreUnavailable("preferences could not be read in time for a form") from None
    texts = request.texts
    cost = places_of(recipe, find_offer(recipe.model, request.services.offers))
    said = [
        texts.gettext(
            "Prompts: {count}. Pictures: {pictures}. Places in the queue: {places}.",
            count=phrase.count,
            pictures=phrase.count * recipe.variants,
            places=phrase.count * cost,
        ),
        *_samples(phrase, texts),
    ]
    title = texts.gettext("Paint all of these?")
    form = imagine_form(request, asked, above="\n".join(said), title=title, private=private)
    await open_form(request, form)
    return True


def _samples(phrase: Phrase, texts: Texts) -> list[str]:
    """Return a line for each of the first prompts."""
    some = [
        phrase.text(index, lambda name, _: f"__{name}__") for index in range(min(phrase.count, SHOWN_PROMPTS))
    ]
    lines = [texts.line(texts.isolated(shown(text, SHOWN_PROMPT)), mark="- ") for text in some]
    return [*lines, "- …"] if phrase.count > SHOWN_PROMPTS else lines


def imagine_form(
    request: Request, asked: Asked, *, title: str = "", above: str = "", private: bool
) -> discord.ui.Modal:
    """Return a form with the options of /imagine, which paints every prompt of its words.

    Its title is by default that of a second attempt; `above` is a text at its top, if any.
    """
    texts = request.texts
    fields = recipe_fields(
        texts,
        prompt=asked.prompt,
        negative_prompt=asked.negative_prompt or "",
        settings=options_line(vars(asked), request.names),
        about=as_in_imagine(request),
    )
    custom_id = f"{FORM}:{PRIVATE if private else PUBLIC}"
    alone = checkbox_field(texts.gettext("Show the pictures to you alone"), PRIVATE, checked=private)
    return modal(title or texts.gettext("Try again"), custom_id, *text_above(above), *fields, alone)


def _most(request: Request) -> int:
    """Return how many prompts one request of the person may have here: the largest limit of their roles."""
    most_of, roles = request.services.role_permutations, request.role_ids
    found = (most_of[role] for role in roles if role in most_of)
    most = max(found, default=request.services.max_permutations)
    return min(most, EXTERNAL_PROMPTS) if request.is_external else most


async def paint_all(
    request: Request,
    visibility: str,
    *,
    prompt: str,
    negative_prompt: str = "",
    settings: str = "",
    private: str = "",
) -> None:
    """Queue a job for each prompt of the form; a form of an older version says by its id who sees them."""
    origin = await accept(request, private=private == CHECKED if private else visibility == PRIVATE)
    phrase = read_few(prompt, most=_most(request))
    typed, wrong = settings_in(settings, request.names)
    asked = Asked(prompt=prompt, negative_prompt=negative_prompt or None, **typed)
    with reported_with(wrong):
        recipes, unsuitable = await _recipes(request, asked, phrase)
    job = await enqueue(request, recipes[0], origin)
    await announce(request, job)
    if unsuitable:
        await name_left_out(request, unsuitable)
    if job.origin.front in (
        request.services.front,
        None,
    ):  # else another front of the same shard queues the others
        await _queue_others(request, recipes[1:], origin)


async def _around(request: Request, asked: Asked) -> tuple[Asked, Recipe, list[str]]:
    """Return what `preferred` does for the request, with `PLACE` for the words of each prompt."""
    place = replace(asked, prompt=PLACE)
    recipe = parse_by_any(place, request.offers)
    return await preferred(request, place, recipe, await preferences_of(request))


async def _recipes(request: Request, asked: Asked, phrase: Phrase) -> tuple[list[Recipe], list[str]]:
    """Return a recipe for each prompt, all of the same seed, and the settings that were left out.

    Raises for the first prompt that cannot be painted.
    """
    filled, recipe, unsuitable = await _around(request, asked)
    offers = request.offers

    def recipe_of(words: str) -> Recipe:
        asked = replace(filled, prompt=placed(filled.prompt, words))
        return replace(parse(asked, offers), seed=recipe.seed)

    recipes = await written_out(request, phrase, recipe_of, seed=recipe.seed)
    return recipes, unsuitable


async def _queue_others(request: Request, recipes: Sequence[Recipe], origin: Origin) -> None:
    """Queue further jobs, each with a message of its own; stop at the first that is refused.

    No error goes to `report`, which would replace the answer: it is the message of the first job.
    """
    for number, recipe in enumerate(recipes, start=1):
        refused: str | None = None
        try:
            refused = await _queue_other(request, recipe, origin)
        except (*UNTOLD, aiohttp.ClientError, OSError) as failure:
            log.warning("Discord took no message for a further prompt: %s", failure)
            refused = request.texts.gettext("Discord took no further message: ask for the others again.")
        if refused is not None:
            queued = request.texts.gettext(
                "{count} of {total} prompts are in the queue.", count=number, total=len(recipes) + 1
            )
            await add(request, f"{queued} {refused}")
            return


async def _queue_other(request: Request, recipe: Recipe, origin: Origin) -> str | None:
    """Queue one job with a message of its own; return the sentence where it is refused."""
    waiting = page(request.texts.gettext("Queued."))
    message = await request.interaction.followup.send(view=waiting, ephemeral=origin.private, wait=True)
    # Each job needs an interaction id of its own. The message's id is unique, and sorts by time as well.
    own = replace(origin, interaction_id=message.id, message_id=message.id)
    try:
        job = await enqueue(request, recipe, own)
    except (InvalidRequest, StoreUnavailable, UserMistake) as error:
        with suppress(*UNTOLD, aiohttp.ClientError, OSError):
            await message.delete()
        return sentence_for(error, request.texts)
    await announce(request, job)
    return None


CONTROLS = (Form(template=rf"{FORM}:(?P<visibility>{PRIVATE}|{PUBLIC})", act=paint_all),)
