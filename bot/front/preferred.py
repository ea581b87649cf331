"""Whose preferences hold for an interaction, and a request filled in with them and with its style."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bot.front.answers import add
from bot.front.options import Asked, parse
from bot.front.preferring import filled_in, nearest
from bot.front.requests import PATIENCE_SECONDS
from bot.front.services import Interaction, services_of
from bot.front.styles import use_style
from bot.front.styling import STYLE
from bot.jobs import Recipe
from bot.retries import while_unavailable
from bot.store.preferences import Owner, Scope
from bot.texts import Texts


def owners_of(interaction: Interaction) -> list[Owner]:
    """Return whose preferences hold for the interaction, the nearest first."""
    owners = [Owner(scope=Scope.ME, id=interaction.user.id)]
    if interaction.guild_id is not None and interaction.channel_id is not None:
        guild_id = interaction.guild_id
        owners.append(Owner(scope=Scope.CHANNEL, id=interaction.channel_id, guild_id=guild_id))
        owners.append(Owner(scope=Scope.SERVER, id=guild_id, guild_id=guild_id))
    return owners


async def preferred(
    interaction: Interaction, asked: Asked, recipe: Recipe
) -> tuple[Asked, Recipe, list[str]]:
    """Use the style, and preferences for options that were left out; also return the unsuitable ones."""
    services = services_of(interaction)
    levels: Sequence[Mapping[str, Any]]
    read = services.store.preferences.of
    levels = await while_unavailable(PATIENCE_SECONDS, read, *owners_of(interaction))
    missing = False
    if asked.style is not None or any(STYLE in options for options in levels):
        asked, levels, missing = await use_style(interaction, asked, levels)
    elif not any(levels):
        return asked, recipe, []
    filled, unsuitable = filled_in(asked, nearest(levels), services.offers)
    unsuitable += [STYLE] if missing else []
    return filled, replace(parse(filled, services.offers), seed=recipe.seed), unsuitable


async def name_left_out(interaction: Interaction, unsuitable: Sequence[str]) -> None:
    """Tell the person alone which saved settings, or settings of the style, were left out."""
    # Only after the job is shown: Discord puts the first message after an acknowledgement in its place.
    if not unsuitable:
        return
    names = Texts.for_locale(str(interaction.locale))
    left_out = ", ".join(names.pgettext("name", name) for name in unsuitable)
    texts = services_of(interaction).texts(interaction)
    await add(
        interaction,
        texts.gettext(
            "These of the saved settings do not suit this request and were left out: {names}.",
            names=left_out,
        ),
    )
