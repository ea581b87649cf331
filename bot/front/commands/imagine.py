"""`/imagine`: from words to a job in the queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from discord import Attachment, app_commands
from discord.app_commands import Range, locale_str

from bot.domain.errors import StoreUnavailable, UserMistake
from bot.domain.jobs import MAX_VARIANTS, REFERENCES, Recipe
from bot.front.answers.answers import add, report, show_words
from bot.front.gateway.command_tree import Command, Option, make_command
from bot.front.recipes.options import (
    LORA,
    MAX_CHOICE,
    MAX_CHOICES,
    RANDOM_SEED,
    Asked,
    find_offer,
    hints_of,
    hires_choices,
    lora_choices,
    may_expand,
    parse_by_any,
    size_choices,
    usual_offer,
)
from bot.front.recipes.settings_line import options_line
from bot.front.recipes.style import STYLE
from bot.front.requests.defaults import model_here, name_left_out, preferred
from bot.front.requests.given_pictures import Given, check_lengths, made_with
from bot.front.requests.intake import accept, announce, check_caps, enqueue, preferences_of
from bot.front.requests.library import drawn, suggest_styles
from bot.front.requests.pasted_recipe import Pasted, filled_from, name_differences
from bot.front.requests.permutations import ask_permutations, imagine_form
from bot.front.requests.recipe_form import recipe_fields, recipe_form
from bot.front.services.request import Request
from bot.front.uploads.messages import PICTURES, SentFile
from bot.texts.markup import shown
from sdjax_engine.errors import InvalidRequest
from sdjax_engine.request import (
    MAX_CONTROL_STRENGTH,
    MAX_GUIDANCE_SCALE,
    MAX_PROMPT_CHARACTERS,
    MAX_SEED,
    SAMPLER_NAMES,
    ControlType,
    Offer,
    Sampler,
)

SHOWN_FLAG = 40
CONTROL_NAMES: Mapping[ControlType, locale_str] = {
    ControlType.EDGES: locale_str("Its edges", words=True),
    ControlType.LINES: locale_str("Its lines", words=True),
    ControlType.TILE: locale_str("All but its details", words=True),
    ControlType.PICTURE: locale_str("It is a control picture", words=True),
    ControlType.POSE: locale_str("It is a pose", words=True),
    ControlType.DEPTH: locale_str("It is a depth map", words=True),
    ControlType.SCRIBBLE: locale_str("It is a scribble", words=True),
    ControlType.NORMAL: locale_str("It is a normal map", words=True),
    ControlType.SEGMENTS: locale_str("It is a map of segments", words=True),
}
# The options that take a file, beside REFERENCES.
IMAGE, MASK, CONTROL, IMAGE_PROMPT = "image", "mask", "control", "image_prompt"
RECIPE, MAX_PASTED = "recipe", 6000  # an option, and Discord's limit of its characters


def imagine_command(offers: Sequence[Offer], *, keywords: bool = False) -> Command:
    """Return the command with all its options; with `keywords`, its prompt has suggestions."""
    options = imagine_options(offers)
    if keywords:
        options = [replace(options[0], autocomplete=suggest_keywords), *options[1:]]
    return make_command(
        name="imagine",
        description=locale_str("Paint a picture from your words."),
        run=imagine,
        options=options,
    )


def imagine_options(offers: Sequence[Offer]) -> list[Option]:
    """Return the options in the order of Discord's display; an option without a choice is left out."""
    options = [*_words_and_numbers(offers), *_start_options()]
    if kinds := control_types_of(offers):
        options += _control_options(kinds)
    if any(offer.image_prompts for offer in offers):
        options += _image_prompt_options()
    options += _reference_options()[: max(offer.references for offer in offers)]
    if any(offer.larger_sizes(size) for offer in offers for size in offer.sizes):
        options.append(_hires_option())
    most_skipped = max(offer.most_skipped for offer in offers)
    if most_skipped:
        options.append(_clip_skip_option(most_skipped + 1))
    options.append(_style_option())
    options.append(
        Option(
            name=RECIPE,
            description=locale_str(
                "Pasted generation data of another tool; with “-” as the prompt, its prompt too."
            ),
            kind=Range[str, 1, MAX_PASTED],
        )
    )
    options.append(
        Option(name="private", description=locale_str("Show the picture to you alone."), kind=bool)
    )
    if any(offer.loras for offer in offers):
        options.append(_lora_option())
    if len(offers) > 1:
        options.append(_model_option(offers))
    return options


def _words_and_numbers(offers: Sequence[Offer]) -> list[Option]:
    most_steps = max(offer.max_steps for offer in offers)
    samplers = [(SAMPLER_NAMES[sampler], sampler.value) for sampler in samplers_of(offers)]
    return [
        Option(
            name="prompt",
            description=locale_str("What the picture should show."),
            kind=Range[str, 1, MAX_PROMPT_CHARACTERS],
            required=True,
        ),
        Option(
            name="negative_prompt",
            description=locale_str("What the picture should not show."),
            kind=Range[str, 1, MAX_PROMPT_CHARACTERS],
        ),
        Option(
            name="variants",
            description=locale_str("How many pictures to paint, each with the next seed."),
            kind=Range[int, 1, MAX_VARIANTS],
        ),
        Option(
            name="size",
            description=locale_str("Width x height, or a shape such as 3:2: one of the suggestions."),
            kind=Range[str, 1, 100],
            autocomplete=suggest_sizes,
        ),
        Option(
            name="seed",
            description=locale_str(
                "The same seed and settings paint the same picture. Default: a random seed."
            ),
            kind=Range[int, RANDOM_SEED, MAX_SEED],
        ),
        Option(
            name="steps",
            description=locale_str("More steps take longer and show more detail."),
            kind=Range[int, 1, most_steps],
        ),
        Option(
            name="guidance",
            description=locale_str(
                "How closely to follow the prompt; at 1 or less the negative prompt has no effect."
            ),
            kind=Range[float, 0.0, MAX_GUIDANCE_SCALE],
        ),
        Option(
            name="sampler",
            description=locale_str("The sampling method."),
            kind=str,
            choices=samplers,
        ),
    ]


def samplers_of(offers: Sequence[Offer]) -> list[Sampler]:
    """Return the samplers that suit some model, as far as is known."""
    return [sampler for sampler in SAMPLER_NAMES if any(_takes(offer, sampler) for offer in offers)]


def _takes(offer: Offer, sampler: Sampler) -> bool:
    return not offer.samplers or sampler in offer.samplers


def _start_options() -> list[Option]:
    return [
        Option(
            name=IMAGE,
            description=locale_str("A picture to start from; its transparent parts are repainted."),
            kind=Attachment,
            file_types=PICTURES,
        ),
        Option(
            name=MASK,
            description=locale_str(
                "Which part of that picture to repaint: white is repainted, black is kept."
            ),
            kind=Attachment,
            file_types=PICTURES,
        ),
        Option(
            name="strength",
            description=locale_str("How much to change that picture: a little near 0, completely at 1."),
            kind=Range[float, 0.0, 1.0],
        ),
    ]


def control_types_of(offers: Sequence[Offer]) -> list[ControlType]:
    """Return the types of control pictures that some model takes."""
    offered = {kind for offer in offers for kind, _ in offer.control_types}
    return [kind for kind in ControlType if kind in offered]


def _control_options(kinds: Sequence[ControlType]) -> list[Option]:
    return [
        Option(
            name=CONTROL,
            description=locale_str("A picture whose composition is kept."),
            kind=Attachment,
            file_types=PICTURES,
        ),
        Option(
            name="control_type",
            description=locale_str("What to keep of that picture, or what it shows already."),
            kind=str,
            choices=[(CONTROL_NAMES[kind], kind.value) for kind in kinds],
        ),
        Option(
            name="control_strength",
            description=locale_str("How closely to keep the composition: not at all at 0, usually 1."),
            kind=Range[float, 0.0, MAX_CONTROL_STRENGTH],
        ),
    ]


def _image_prompt_options() -> list[Option]:
    return [
        Option(
            name=IMAGE_PROMPT,
            description=locale_str("A picture as a prompt, beside the words."),
            kind=Attachment,
            file_types=PICTURES,
        ),
        Option(
            name="image_prompt_strength",
            description=locale_str("How much that picture counts: not at all at 0, usually 0.6."),
            kind=Range[float, 0.0, 1.0],
        ),
    ]


def _reference_options() -> list[Option]:
    descriptions = (
        locale_str("A picture to change, or that the words speak of."),
        locale_str("Another picture that the words speak of."),
    )
    return [
        Option(name=name, description=description, kind=Attachment, file_types=PICTURES)
        for name, description in zip(REFERENCES, descriptions, strict=True)
    ]


def _hires_option() -> Option:
    return Option(
        name="hires",
        description=locale_str("A second pass in a larger size: size, strength and steps, or 2x."),
        kind=Range[str, 1, MAX_CHOICE],
        autocomplete=suggest_hires,
    )


def _clip_skip_option(most: int) -> Option:
    return Option(
        name="clip_skip",
        description=locale_str(
            "Where CLIP's encoding is taken: 1 is after the last layer, 2 leaves out the last layer."
        ),
        kind=Range[int, 1, most],
    )


def _lora_option() -> Option:
    return Option(
        name=LORA,
        description=locale_str("LoRAs and their weights, separated by commas: name or name:0.8."),
        kind=Range[str, 1, 300],
        autocomplete=suggest_loras,
    )


def _style_option() -> Option:
    return Option(
        name=STYLE,
        description=locale_str(
            "A style of this server, which adds words and settings to yours. “-”: no style."
        ),
        kind=Range[str, 1, MAX_CHOICE],
        autocomplete=suggest_styles,
    )


def _model_option(offers: Sequence[Offer]) -> Option:
    models = [(offer.model, offer.model) for offer in offers[:MAX_CHOICES]]
    return Option(name="model", description=locale_str("Which model paints."), kind=str, choices=models)


async def imagine(request: Request, **options: Any) -> None:
    """Queue what the options ask for; where they are refused, a form with them can be sent again."""
    try:
        await ask(request, **options)
    except (InvalidRequest, UserMistake, StoreUnavailable) as error:
        await _refuse(request, error, **options)


async def _refuse(
    request: Request,
    error: Exception,
    *,
    private: bool = False,
    image: Attachment | None = None,
    mask: Attachment | None = None,
    control: Attachment | None = None,
    image_prompt: Attachment | None = None,
    reference: Attachment | None = None,
    reference_2: Attachment | None = None,
    **typed: Any,
) -> None:
    """Answer the error with a button that opens a form with all that was typed, without files.

    Pasted text that cannot be read is shown, to be copied.
    """
    services, names = request.services, request.names
    texts = request.texts
    text, asked = typed.pop(RECIPE, None), Asked(**typed)
    try:
        asked = asked if text is None else filled_from(asked, text, services.offers).asked
    except (InvalidRequest, UserMistake):
        await report(request, error)
        await show_words(request, asked.prompt, asked.negative_prompt or "", text or "")
        return
    below = ""
    if image or mask or control or image_prompt or reference or reference_2:
        asked = replace(asked, strength=None, control_type=None, control_strength=None)
        asked = replace(asked, image_prompt_strength=None)
        command = "/" + names.pgettext("name", "imagine")
        below = texts.gettext("The picture is not kept: send it again with {command}.", command=command)
    if text is None:
        form = imagine_form(request, asked, above=below, private=private)
    else:
        fields = recipe_fields(
            texts,
            prompt=asked.prompt,
            negative_prompt=asked.negative_prompt or "",
            settings=options_line(vars(asked), names),
        )
        form = recipe_form(texts.gettext("Try again"), *fields, above=below, private=private)
    again = services.kept_forms.keep(form.to_dict(), user_id=request.person.id)
    await report(request, error, again=again, below=below)


async def ask(
    request: Request,
    *,
    private: bool = False,
    image: Attachment | None = None,
    mask: Attachment | None = None,
    control: Attachment | None = None,
    image_prompt: Attachment | None = None,
    reference: Attachment | None = None,
    reference_2: Attachment | None = None,
    **typed: Any,
) -> None:
    """Check the options, before the acknowledgement; then queue the job."""
    services = request.services
    text = typed.pop(RECIPE, None)
    given = Given(
        init_image=_sent(image, IMAGE, request),
        mask_image=_sent(mask, MASK, request),
        control_image=_sent(control, CONTROL, request),
        image_prompt=_sent(image_prompt, IMAGE_PROMPT, request),
        reference=_sent(reference, REFERENCES[0], request),
        reference_2=_sent(reference_2, REFERENCES[1], request),
    )
    asked = Asked(
        **typed,
        image=image is not None,
        mask=mask is not None,
        control=control is not None,
        image_prompt=image_prompt is not None,
        references=given.references,
    )
    pasted = None if text is None else filled_from(asked, text, services.offers)
    asked = asked if pasted is None else pasted.asked
    recipe = parse_by_any(asked, services.offers)
    check_lengths(request, given)
    expands = may_expand(asked.prompt) and not (pasted and pasted.literal)
    if expands and await ask_permutations(request, asked, private=private):
        return
    origin = await accept(request, private=private, files=given.files)
    if given.sent:
        await check_caps(request, origin, recipe)
    asked, recipe, unsuitable = await filled(request, asked, recipe, pasted)
    async with made_with(request, recipe, asked, given) as made:
        job = await enqueue(request, made, origin)
    await announce(request, job)
    if unsuitable:
        await name_left_out(request, unsuitable)
    if pasted and pasted.differences:
        await name_differences(request, pasted.differences)
    await hint(request, recipe.prompt)


async def filled(
    request: Request, asked: Asked, recipe: Recipe, pasted: Pasted | None = None
) -> tuple[Asked, Recipe, list[str]]:
    """Draw the words for wildcards, then return what `preferred` does; a pasted recipe has no preferences.

    Defaults for options that were left out are within the policy.
    """
    if may_expand(asked.prompt) and not (pasted and pasted.literal):
        asked = replace(asked, prompt=await drawn(request, asked.prompt, seed=recipe.seed))
    levels = [] if pasted else await preferences_of(request)
    return await preferred(request, asked, recipe, levels)


async def hint(request: Request, prompt: str) -> None:
    """Tell the person alone which option replaces a flag of another bot, or of a LoRA that is only text."""
    if not (typed := list(hints_of(prompt))):
        return
    offered = {option.name for option in imagine_options(request.services.offers)}
    found = next((each for each in typed if each.option in {*offered, LORA}), None)
    if found is None:
        return
    if found.option == LORA:
        await add(
            request,
            request.texts.gettext(
                "“{typed}” was read as part of the prompt: the model offers no LoRA of this name.",
                typed=shown(found.typed, SHOWN_FLAG),
            ),
        )
        return
    option = request.names.pgettext("name", found.option)
    await add(
        request,
        request.texts.gettext(
            "“{typed}” was read as part of the prompt: use the option **{option}** instead.",
            typed=shown(found.typed, SHOWN_FLAG),
            option=option,
        ),
    )


def _sent(attachment: Attachment | None, option: str, request: Request) -> SentFile | None:
    """Return the file of an option, which sentences call by the option's name."""
    if attachment is None:
        return None
    called = f"“{request.texts.pgettext('field', option)}”"
    return SentFile(address=attachment.url, what=called, size=attachment.size)


async def suggest_keywords(request: Request, typed: str) -> list[app_commands.Choice[str]]:
    """Complete the last keyword of the prompt."""
    keywords = request.services.keywords
    return _choices([(text, text) for text in keywords.complete(typed)]) if keywords else []


async def suggest_sizes(request: Request, typed: str) -> list[app_commands.Choice[str]]:
    """Suggest the sizes of the chosen model."""
    return _choices(size_choices(typed, await _chosen_offer(request)))


async def suggest_hires(request: Request, typed: str) -> list[app_commands.Choice[str]]:
    """Suggest second passes in the larger sizes of the chosen model."""
    size = getattr(request.interaction.namespace, "size", None)
    return _choices(hires_choices(typed, size, await _chosen_offer(request)))


async def suggest_loras(request: Request, typed: str) -> list[app_commands.Choice[str]]:
    """Suggest the LoRAs of the chosen model."""
    return _choices(lora_choices(typed, await _chosen_offer(request)))


async def _chosen_offer(request: Request) -> Offer:
    """Return the offer of the model that is typed, or that the style or saved settings name.

    Without such a model it is the first that takes the given pictures.
    """
    offers, typed = request.services.offers, vars(request.interaction.namespace)
    model = typed.get("model")
    try:
        if model is None and len(offers) > 1:
            model = await model_here(request, typed.get(STYLE))
        return usual_offer(given_in(typed), offers if model is None else [find_offer(model, offers)])
    except (InvalidRequest, UserMistake, StoreUnavailable):
        return offers[0]


def given_in(typed: Mapping[str, Any]) -> Asked:
    """Return which pictures half-typed options give; their own settings tell of them too."""
    return Asked(
        prompt="",
        control=any(name in typed for name in (CONTROL, "control_type", "control_strength")),
        control_type=typed.get("control_type"),
        image_prompt=any(name in typed for name in (IMAGE_PROMPT, "image_prompt_strength")),
        references=sum(name in typed for name in REFERENCES),
    )


def _choices(found: list[tuple[str, str]]) -> list[app_commands.Choice[str]]:
    return [app_commands.Choice(name=name, value=value) for name, value in found]
