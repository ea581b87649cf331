"""Whether the results of a place go to moderators first, and answers to appeals that could not be sent."""

from __future__ import annotations

import discord

from bot.delivery.review_message import appeal_answer
from bot.front.answers import add
from bot.front.services import Interaction, services_of
from bot.holds import Cause, Hold
from bot.moderation.policy import effective, said_by


async def review_mode(interaction: Interaction) -> Hold | None:
    """Return the hold of every result here, as the nearest policy has it; None where there is none."""
    if interaction.guild_id is None or not interaction.is_guild_integration():
        return None
    channel = interaction.channel
    channels = [interaction.channel_id or 0]
    if isinstance(channel, discord.Thread):
        channels.append(channel.parent_id)
    roles = [role.id for role in getattr(interaction.user, "roles", ())]
    rows = await services_of(interaction).store.policies.of(interaction.guild_id, channels, roles)
    return Hold(cause=Cause.MODE) if effective(map(said_by, rows)).policy.review else None


async def tell_answers(interaction: Interaction) -> None:
    """Tell the person alone of declined appeals that no direct message could tell."""
    services = services_of(interaction)
    for review in await services.store.appeals.answers_left(interaction.user.id):
        await add(interaction, appeal_answer(review, services.texts(interaction)))
