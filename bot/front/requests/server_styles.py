"""The styles that a request can use: those of its server, and those of the configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from discord.app_commands import Choice

from bot.domain.errors import StoreUnavailable, UserMistake
from bot.front.recipes.options import Asked
from bot.front.recipes.style import NO_STYLE, STYLE, find, style_choices, styled, unknown_style, with_style
from bot.front.services.request import Request, patiently
from bot.store.library.styles import Style

Levels = Sequence[Mapping[str, Any]]


async def styles_of(request: Request) -> list[Style]:
    """Return the styles of the server, then those that every server has."""
    services = request.services
    if request.guild_id is None:
        return [*services.styles]
    own = await patiently(services.store.styles.of, request.guild_id)
    return [*own, *services.styles]


async def style_of(request: Request, name: str) -> Style:
    """Return the style of this name; raises UserMistake `style_unknown` or `style_none`."""
    styles = await styles_of(request)
    found = find(name, styles)
    if found is None:
        raise unknown_style(name, styles)
    return found


async def use_style(
    request: Request, asked: Asked, levels: Levels
) -> tuple[Asked, list[Mapping[str, Any]], bool]:
    """Return `asked` with the texts of its style, and the levels of preferences with the style's options.

    The style is that of the command, else the nearest one in the preferences. The last value is whether
    the preferences name a style that is not there. Raises UserMistake for an unknown style of the command.
    """
    place = next((index for index, options in enumerate(levels) if STYLE in options), None)
    name = asked.style if asked.style is not None or place is None else str(levels[place][STYLE])
    plain = [{key: options[key] for key in options if key != STYLE} for options in levels]
    if name in (None, NO_STYLE):
        return Asked(**{**vars(asked), STYLE: None}), [*plain], False
    try:
        style = await style_of(request, name)
    except UserMistake:
        if asked.style is not None:
            raise
        return asked, [*plain], True
    before = 0 if asked.style is not None or place is None else place + 1
    return styled(asked, style), with_style(plain, style, before=before), False


async def suggest_styles(request: Request, typed: str) -> list[Choice[str]]:
    """Suggest the styles of the server; none while the queue is unavailable."""
    try:
        styles = await styles_of(request)
    except StoreUnavailable:
        return []
    return [Choice(name=name, value=name) for name in style_choices(typed, styles)]
