"""A request filled in with preferences and with its style."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bot.domain.errors import UserMistake
from bot.domain.expansion import PLACE
from bot.domain.jobs import Recipe
from bot.front.answers.answers import add
from bot.front.recipes.options import NEGATIVE_PROMPT, Asked, filled_in, nearest, parse
from bot.front.recipes.style import STYLE
from bot.front.requests.intake import preferences_of
from bot.front.requests.library import use_style
from bot.front.requests.words import check_texts
from bot.front.services.request import Request


async def preferred(
    request: Request, asked: Asked, recipe: Recipe, levels: Sequence[Mapping[str, Any]]
) -> tuple[Asked, Recipe, list[str]]:
    """Return the request and its recipe with style and preferences, and the names of unsuitable preferences.

    A saved negative prompt that a rule refuses here is unsuitable. `levels` come from `preferences_of`. Of
    `recipe` only the seed is used: which model paints, and what it takes, is known here.
    """
    offers = request.offers
    missing = False
    if asked.style is not None or any(STYLE in options for options in levels):
        asked, levels, missing = await use_style(request, asked, levels)
    options = nearest(levels)
    unsuitable = [STYLE] if missing else []
    if asked.negative_prompt is None and not await _is_allowed(request, options.get(NEGATIVE_PROMPT, "")):
        del options[NEGATIVE_PROMPT]
        unsuitable.append(NEGATIVE_PROMPT)
    filled, others = filled_in(asked, options, offers)
    unsuitable += others
    return filled, replace(parse(filled, offers), seed=recipe.seed), unsuitable


async def model_here(request: Request, style: str | None) -> str | None:
    """Return the model that a style or saved settings name, None where they name none.

    Raises UserMistake for an unknown style, and StoreUnavailable.
    """
    levels: Sequence[Mapping[str, Any]] = await preferences_of(request)
    if style is not None or any(STYLE in options for options in levels):
        _, levels, _ = await use_style(request, Asked(prompt=PLACE, style=style), levels)
    return nearest(levels).get("model")


async def _is_allowed(request: Request, saved: str) -> bool:
    """Return whether no rule here refuses a saved text, which was perhaps saved before the rule."""
    try:
        if saved:
            await check_texts(request, [saved])
    except UserMistake:
        return False
    return True


async def name_left_out(request: Request, unsuitable: Sequence[str]) -> None:
    """Tell the person alone which saved settings, or settings of the style, were left out."""
    # Only after the job is shown: Discord replaces the acknowledgement by the first message.
    names = request.names
    left_out = ", ".join(names.pgettext("name", name) for name in unsuitable)
    await add(
        request,
        request.texts.gettext(
            "These of the saved settings do not suit this request and were left out: {names}.",
            names=left_out,
        ),
    )
