"""The lists of the server that a command comes from: for its prompts, and as suggestions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from discord.app_commands import Choice

from bot.domain.errors import StoreUnavailable
from bot.domain.expansion import Phrase, read_phrase
from bot.front.recipes.options import clean
from bot.front.recipes.wildcard import drawing, wildcard_choices
from bot.front.services.request import Request, patiently
from bot.process.threads import Check
from bot.store.library.wildcards import Wildcard

T = TypeVar("T")


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
