"""The library of a server, as requests use and suggest it: its styles, and its lists for prompts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from discord.app_commands import Choice

from bot.domain.errors import StoreUnavailable, UserMistake
from bot.domain.expansion import Phrase, read_phrase
from bot.front.recipes.options import Asked, clean
from bot.front.recipes.style import NO_STYLE, STYLE, find, style_choices, styled, unknown_style, with_style
from bot.front.recipes.wildcard import drawing, wildcard_choices
from bot.front.services.request import Request, patiently
from bot.process.threads import Check
from bot.store.library.styles import Style
from bot.store.library.wildcards import Wildcard

Levels = Sequence[Mapping[str, Any]]
T = TypeVar("T")


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


async def wildcards_of(request: Request) -> list[Wildcard]:
    """Return the lists of the server; none in a direct message."""
    if request.guild_id is None:
        return []
    read = request.services.store.wildcards.of
    return await patiently(read, request.guild_id)


async def written_out(request: Request, phrase: Phrase, finish: Callable[[str], T], *, seed: int) -> list[T]:
    """Return what `finish` makes of every text of a phrase, with the entries that the seed draws.

    Raises as `drawing`, `Phrase.text` and `Judging.run`, in whose threads the texts are written.
    """
    lists = await wildcards_of(request) if any(phrase.wildcards) else []
    choose = drawing(lists, seed=seed)

    def write(check: Check) -> list[T]:
        made = []
        for index in range(phrase.count):
            check("")
            made.append(finish(phrase.text(index, choose)))
        return made

    return await request.services.judging.run(request.sender, write)


async def drawn(request: Request, prompt: str, *, seed: int) -> str:
    """Return the only text of a prompt without alternatives; raises as `written_out`."""
    [text] = await written_out(request, read_phrase(prompt), clean, seed=seed)
    return text


async def suggest_wildcards(request: Request, typed: str) -> list[Choice[str]]:
    """Suggest the lists of the server; none while the queue is unavailable."""
    try:
        found = wildcard_choices(typed, await wildcards_of(request))
    except StoreUnavailable:
        return []
    return [Choice(name=name, value=name) for name in found]
