"""Who may do what with a job."""

from __future__ import annotations

from bot.front.parts import Interaction
from bot.jobs import Job


def moderates(interaction: Interaction, guild_id: int | None) -> bool:
    """Whether the person may manage messages in that server, which this interaction must come from."""
    here = guild_id is not None and interaction.guild_id == guild_id
    return here and interaction.permissions.manage_messages


def asker(interaction: Interaction, job: Job) -> int | None:
    """By whose right the store is asked to change `job`: None for a moderator's, else the person's own."""
    return None if moderates(interaction, job.origin.guild_id) else interaction.user.id
