"""`/imagine`: from words to a job in the queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from discord import app_commands
from discord.app_commands import Range, locale_str

from bot.front.commands.describing import Command, Option, make_command
from bot.front.options import MAX_CHOICES, Asked, find_offer, parse, size_choices
from bot.front.parts import Interaction, parts_of
from bot.front.requests import request
from bot.jobs import MAX_VARIANTS
from bot.texts import SAMPLER_NAMES
from sdjax_engine.request import (
    MAX_GUIDANCE_SCALE,
    MAX_PROMPT_CHARACTERS,
    MAX_SEED,
    InvalidRequest,
    Offer,
)


def imagine_command(offers: Sequence[Offer]) -> Command:
    """The command, with a `model` option only where there is something to choose."""
    options = imagine_options(offers)
    return make_command(
        name="imagine",
        description=locale_str("Paint a picture from your words."),
        run=imagine,
        options=options if len(offers) > 1 else [option for option in options if option.name != "model"],
    )


def imagine_options(offers: Sequence[Offer]) -> list[Option]:
    """What can be asked for, in the order that Discord shows it."""
    most_steps = max(offer.max_steps for offer in offers)
    models = [(offer.model, offer.model) for offer in offers[:MAX_CHOICES]]
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
            description=locale_str("Width x height such as 512x512, or a shape such as 3:2."),
            kind=Range[str, 1, 100],
            autocomplete=suggest_sizes,
        ),
        Option(
            name="seed",
            description=locale_str(
                "The same seed and settings paint the same picture. Left out: a random one."
            ),
            kind=Range[int, 0, MAX_SEED],
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
            choices=[(name, sampler.value) for sampler, name in SAMPLER_NAMES.items()],
        ),
        Option(name="private", description=locale_str("Show the picture to you alone."), kind=bool),
        Option(name="model", description=locale_str("Which model paints."), kind=str, choices=models),
    ]


async def imagine(interaction: Interaction, *, private: bool = False, **asked: Any) -> None:
    """Check first, purely; a mistake is told at once, before anything is acknowledged or stored."""
    recipe = parse(Asked(**asked), parts_of(interaction).offers)
    await request(interaction, recipe, private=private)


async def suggest_sizes(interaction: Interaction, typed: str) -> list[app_commands.Choice[str]]:
    """The sizes of the model that is chosen so far."""
    offers = parts_of(interaction).offers
    try:
        offer = find_offer(getattr(interaction.namespace, "model", None), offers)
    except InvalidRequest:
        offer = offers[0]
    return [app_commands.Choice(name=name, value=value) for name, value in size_choices(typed, offer)]
