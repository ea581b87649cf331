"""The lists of the server that a command comes from: for its prompts, and as suggestions."""

from __future__ import annotations

from discord.app_commands import Choice

from bot.errors import StoreUnavailable
from bot.expansion import Phrase, read_phrase
from bot.front.options import clean
from bot.front.requests import PATIENCE_SECONDS
from bot.front.services import Interaction, services_of
from bot.front.wildcards import drawing, wildcard_choices
from bot.retries import while_unavailable
from bot.store.wildcards import Wildcard


async def wildcards_of(interaction: Interaction) -> list[Wildcard]:
    """Return the lists of the server; none in a direct message."""
    if interaction.guild_id is None:
        return []
    read = services_of(interaction).store.wildcards.of
    return await while_unavailable(PATIENCE_SECONDS, read, interaction.guild_id)


async def written_out(interaction: Interaction, phrase: Phrase, *, seed: int) -> list[str]:
    """Return every text of a phrase, with the entries that the seed draws; raises as `drawing`."""
    lists = await wildcards_of(interaction) if any(phrase.wildcards) else []
    choose = drawing(lists, seed=seed)
    return [phrase.text(index, choose) for index in range(phrase.count)]


async def drawn(interaction: Interaction, prompt: str, *, seed: int) -> str:
    """Return the only text of a prompt without alternatives; raises as `drawing`."""
    [text] = await written_out(interaction, read_phrase(prompt), seed=seed)
    return clean(text)


async def suggest_wildcards(interaction: Interaction, typed: str) -> list[Choice[str]]:
    """Suggest the lists of the server; none while the queue is unavailable."""
    try:
        found = wildcard_choices(typed, await wildcards_of(interaction))
    except StoreUnavailable:
        return []
    return [Choice(name=name, value=name) for name in found]
