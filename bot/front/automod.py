"""Discord's AutoMod rules of a server, applied to the words of requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum, auto

from bot.front.allowed import held_of
from bot.front.services import Interaction, services_of
from bot.moderation.automod import AutomodRule, AutomodVerdict, judged
from bot.retries import while_unavailable

PATIENCE_SECONDS = 2.0


class Standing(Enum):
    """Whether a server's AutoMod rules are applied to prompts."""

    APPLIED = auto()
    OFF = auto()
    NO_RIGHT = auto()
    UNREAD = auto()  # what was read before is applied


async def automod_verdict(interaction: Interaction, texts: Sequence[str]) -> AutomodVerdict | None:
    """Return the AutoMod rule that refuses one of the texts; None where none does or none may be read."""
    if not _may_read(interaction) or not (await held_of(interaction)).automod:
        return None
    rules = await _rules(interaction)
    roles = [role.id for role in getattr(interaction.user, "roles", ())]
    return judged(texts, rules, roles=roles, places=_places(interaction)) if rules else None


async def automod_standing(interaction: Interaction) -> tuple[Standing, tuple[AutomodRule, ...]]:
    """Return whether the rules of the server are applied, and the rules as far as they are known."""
    if not await _is_applied(interaction):
        return Standing.OFF, ()
    if not _may_read(interaction):
        return Standing.NO_RIGHT, ()
    rules = await _rules(interaction)
    unread = services_of(interaction).automod.has_failed(interaction.guild_id or 0)
    return Standing.UNREAD if unread else Standing.APPLIED, rules


def _may_read(interaction: Interaction) -> bool:
    """Return whether the bot is in the server with the right to manage it; else Discord is not asked."""
    return interaction.is_guild_integration() and interaction.app_permissions.manage_guild


async def _rules(interaction: Interaction) -> tuple[AutomodRule, ...]:
    return await services_of(interaction).automod.rules_of(interaction.client, interaction.guild_id or 0)


async def _is_applied(interaction: Interaction) -> bool:
    look = services_of(interaction).store.automod.is_applied
    return await while_unavailable(PATIENCE_SECONDS, look, interaction.guild_id or 0)


def _places(interaction: Interaction) -> Iterator[int]:
    """Yield the ids of the channel, of the channel of a thread, and of their category."""
    here = interaction.channel
    for found in (
        interaction.channel_id,
        getattr(here, "parent_id", None),
        getattr(here, "category_id", None),
    ):
        if found is not None:
            yield found
