"""The form of a recipe: words, and the settings as one line. Remix and the menus of messages fill it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import discord

from bot.domain.errors import StoreUnavailable, UserMistake
from bot.domain.jobs import REFERENCES, Recipe
from bot.front.answers.answers import FORM_READ_SECONDS
from bot.front.answers.modals import MAX_NAME, choice_field, modal, picture_field, settings_field, text_field
from bot.front.recipes.options import (
    MAX_CHOICES,
    PICTURE_STRENGTH,
    Asked,
    find_offer,
    parse,
    reported_with,
    size_name,
    with_second_pass,
)
from bot.front.recipes.settings_line import KEPT, PAINTED, options_line, settings_in
from bot.front.recipes.style import NO_STYLE, STYLE, styled
from bot.front.requests.library import style_of
from bot.front.services.request import Request
from bot.texts.catalogue import Texts
from sdjax_engine.request import MAX_PROMPT_CHARACTERS, SAMPLER_NAMES, Offer
from sdjax_engine.sampler_names import parse_sampler

PROMPT, NEGATIVE_PROMPT, SIZE, SAMPLER = "prompt", "negative_prompt", "size", "sampler"
MASK = "mask"
NO_CONTROL = "-"  # as the type of control: without the earlier control picture
MAX_PARTS = 5  # of a form
RECIPE = "recipe"  # the first part of an id
ALL, ALONE = "all", "alone"  # in an id: who sees the result


def painted_fields(
    request: Request,
    *,
    prompt: str,
    negative_prompt: str,
    values: Mapping[str, object],
    parts: int = MAX_PARTS,
) -> list[discord.ui.Item[Any]]:
    """Return at most so many `parts`: the words, menus of sizes and samplers, and a line of other settings.

    `values` has all settings of a recipe. The menu of sizes has those of all models, each with its model if
    there are several. A size or sampler that is not offered is not preselected: the person chooses one.
    """
    texts, offers = request.texts, request.services.offers
    left = dict(values)
    offer = next((each for each in offers if each.model == left.get("model")), offers[0])
    first, *rest, line = recipe_fields(texts, prompt=prompt, negative_prompt=negative_prompt)
    menus: list[discord.ui.Item[Any]] = []
    if parts > len((first, *rest, line)):
        label = texts.gettext("Model and size") if len(offers) > 1 else texts.gettext("Size")
        chosen = f"{left.pop('size', '')} {left.pop('model', '')}"
        menus.append(_choice(label, SIZE, list(size_menu(offer, offers)), chosen))
    if parts > len((first, *rest, *menus, line)):
        suits = [each for each in SAMPLER_NAMES if any(each in (o.samplers or SAMPLER_NAMES) for o in offers)]
        samplers = [(SAMPLER_NAMES[each], each.value) for each in suits]
        chosen = parse_sampler(str(left.pop("sampler"))).value
        menus.append(_choice(texts.gettext("Sampler"), SAMPLER, samplers, chosen))
    settings = options_line(left, request.names)
    return [first, *rest, *menus, recipe_fields(texts, settings=settings)[-1]]


def _choice(
    label: str, custom_id: str, found: Sequence[tuple[str, str]], chosen: str
) -> discord.ui.Label[Any]:
    """Return a choice among (name, value), with the value `chosen` preselected if it is among them."""
    names, values = [name for name, _ in found], [value for _, value in found]
    preselected = values.index(chosen) if chosen in values else None
    return choice_field(label, custom_id, names, values=values, chosen=preselected)


def size_menu(offer: Offer, offers: Sequence[Offer]) -> Iterator[tuple[str, str]]:
    """Yield (name, value) of the sizes of this offer, then of the others, as many as a menu has room for."""
    others = [each for each in offers if each is not offer]
    found = [(size, each) for each in (offer, *others) for size in each.sizes]
    fitting = [(size, each) for size, each in found if len(_size_value(size, each)) <= MAX_NAME]
    for size, each in fitting[:MAX_CHOICES]:
        name = size_name(size)
        yield f"{each.model} · {name}" if others else name, _size_value(size, each)


def _size_value(size: tuple[int, int], offer: Offer) -> str:
    return f"{size[0]}x{size[1]} {offer.model}"


def chosen_in(size: str, sampler: str) -> dict[str, str]:
    """Return the settings that were chosen in the menus of `painted_fields`."""
    dimensions, _, model = size.partition(" ")
    chosen = {"size": dimensions, "model": model, "sampler": sampler}
    return {name: value for name, value in chosen.items() if value}


@asynccontextmanager
async def in_time() -> AsyncIterator[None]:
    """Surround reads of the store before a form; raises StoreUnavailable if they take too long."""
    try:
        async with asyncio.timeout(FORM_READ_SECONDS):
            yield
    except TimeoutError:
        raise StoreUnavailable("the store could not be read in time for a form") from None


def recipe_fields(
    texts: Texts, *, prompt: str = "", negative_prompt: str = "", settings: str = "", about: str = ""
) -> list[discord.ui.Item[Any]]:
    """Return the inputs of the form; `about` is the line above the settings."""
    long = discord.TextStyle.paragraph
    return [
        text_field(texts.gettext("Prompt"), PROMPT, prompt, style=long, max_length=MAX_PROMPT_CHARACTERS),
        text_field(
            texts.gettext("Not in the picture"),
            NEGATIVE_PROMPT,
            negative_prompt,
            style=long,
            required=False,
            max_length=MAX_PROMPT_CHARACTERS,
        ),
        settings_field(
            texts,
            settings,
            description=about
            or texts.gettext("What you leave out takes the model's default; without a seed, a random one."),
        ),
    ]


def mask_field(texts: Texts) -> discord.ui.Item[Any]:
    """Return the input for the mask of a start picture, which may stay empty."""
    return picture_field(
        texts.gettext("Mask"), MASK, description=texts.gettext("White is repainted, black is kept.")
    )


def recipe_form(title: str, *fields: discord.ui.Item[Any], above: str, private: bool) -> discord.ui.Modal:
    """Return the form of a recipe, with a text `above` its fields, if any.

    What it paints is not filled in with preferences.
    """
    return modal(title, f"{RECIPE}:{ALONE if private else ALL}", *text_above(above), *fields)


def text_above(text: str) -> list[discord.ui.Item[Any]]:
    """Return the part of a form that shows a text; none for an empty one."""
    return [discord.ui.TextDisplay(text)] if text else []


def as_in_imagine(request: Request) -> str:
    """Return the line above settings that mean what the options of /imagine do."""
    names = request.names
    return request.texts.gettext(
        "Such as “{example}”. What you leave out is as in {command}.",
        example=options_line({"strength": PICTURE_STRENGTH}, names),
        command="/" + names.pgettext("name", "imagine"),
    )


async def recipe_of(
    request: Request,
    earlier: Recipe | None = None,
    *,
    prompt: str,
    negative_prompt: str = "",
    settings: str = "",
    size: str = "",
    sampler: str = "",
) -> Recipe:
    """Return the recipe of a form as it was filled in; an `earlier` recipe's given pictures stay.

    Pictures are left out as `asked_in` says.

    Raises as `asked_in`.
    """
    given: Mapping[str, Any] = {} if earlier is None else earlier.given
    asked, recipe = await asked_in(
        request,
        prompt=prompt,
        negative_prompt=negative_prompt,
        settings=settings,
        chosen=chosen_in(size, sampler),
        earlier=earlier,
        image="init_image" in given,
        mask="mask_image" in given,
        control="control_image" in given,
        image_prompt="image_prompt" in given,
        references=sum(field in REFERENCES for field in given),
    )
    given = {field: name for field, name in given.items() if field not in left_out(given, asked)}
    if earlier is None or not given:
        return recipe
    strength = earlier.strength if asked.strength is None else recipe.strength
    recipe = with_second_pass(recipe, asked, find_offer(recipe.model, request.services.offers))
    return replace(recipe, **given, strength=strength)


def left_out(given: Collection[str], asked: Asked) -> set[str]:
    """Return which of these given pictures the options of a form leave out, by their fields."""
    found = {"control_image"} if not asked.control else set()
    found |= {"image_prompt"} if not asked.image_prompt else set()
    return found | set([field for field in REFERENCES if field in given][asked.references :])


async def asked_in(
    request: Request,
    *,
    prompt: str,
    negative_prompt: str,
    settings: str,
    chosen: Mapping[str, str],
    earlier: Recipe | None,
    image: bool,
    mask: bool,
    control: bool,
    image_prompt: bool,
    references: int,
) -> tuple[Asked, Recipe]:
    """Return the options of a form, and their recipe without the start picture.

    A setting that is typed too counts before the one `chosen` in a menu. A style in the settings puts its
    texts around the words. `NO_CONTROL` as the type leaves the control picture out, 0 as the strength the
    image prompt, and a smaller number the last references. Raises as `parse` and `style_of`.
    """
    known = (*PAINTED, KEPT) if references else PAINTED
    typed, wrong = settings_in(settings, request.names, settings=known)
    kept = typed.pop(KEPT, references)
    usual: dict[str, Any] = {"model": earlier.model if earlier else None}
    if typed.get("control_type") == NO_CONTROL:
        typed, control = typed | {"control_type": None, "control_strength": None}, False
    elif control and earlier is not None and earlier.control_image is not None:
        kind, strength = earlier.control_type.value, earlier.control_strength
        usual |= {"control_type": kind, "control_strength": strength}
    if image_prompt and typed.get("image_prompt_strength") == 0:
        typed, image_prompt = typed | {"image_prompt_strength": None}, False
    elif earlier is not None and earlier.image_prompt is not None:
        usual["image_prompt_strength"] = earlier.image_prompt_strength
    asked = Asked(
        prompt=prompt,
        negative_prompt=negative_prompt,
        **{**usual, **chosen, **typed, STYLE: None},
        image=image,
        mask=mask,
        control=control,
        image_prompt=image_prompt,
        references=min(max(0, kept), references),
    )
    if not 0 <= kept <= references:
        name = request.names.pgettext("name", KEPT)
        wrong.append(UserMistake("references_kept", name=name, value=kept, limit=references))
    if typed.get(STYLE) not in (None, NO_STYLE):
        asked = styled(asked, await style_of(request, typed[STYLE]))
    with reported_with(wrong):
        recipe = parse(asked, request.offers)
    if earlier is not None and recipe.seed == earlier.seed:
        recipe = replace(recipe, variations=earlier.variations)
    return asked, recipe
