"""Who may see and do what with a job."""

from __future__ import annotations

import discord

from bot.front.services import Interaction
from bot.jobs import Job

NOTHING = discord.Permissions.none()


def sees(interaction: Interaction, job: Job) -> bool:
    """Whether the person may look into the channel where `job` was asked for."""
    return _rights(interaction, job).view_channel


def moderates(interaction: Interaction, job: Job) -> bool:
    """Whether the person may manage messages in the server's channel where `job` was asked for."""
    return job.origin.guild_id is not None and _rights(interaction, job).manage_messages


def may_repeat(interaction: Interaction, job: Job, *, privately: bool) -> bool:
    """Whether the person may ask for more like `job`, in an answer that they alone see if `privately`.

    The owner may, but a private job is never repeated where other members of a server read the answer.
    Anybody else may repeat what is not private, where they may look into its channel.
    """
    if job.origin.user_id != interaction.user.id:
        return not job.origin.private and sees(interaction, job)
    return privately or not job.origin.private or interaction.guild_id is None


def asker(interaction: Interaction, job: Job) -> int | None:
    """By whose right the store is asked to change `job`: None for a moderator's, else the person's own."""
    return None if moderates(interaction, job) else interaction.user.id


def _rights(interaction: Interaction, job: Job) -> discord.Permissions:
    """What the person may do in the job's channel; of one that is gone or hidden only administrators know."""
    if job.origin.guild_id != interaction.guild_id:
        return NOTHING
    if job.origin.channel_id == interaction.channel_id or interaction.permissions.administrator:
        return interaction.permissions
    guild = interaction.guild
    channel = guild.get_channel_or_thread(job.origin.channel_id) if guild else None
    if channel is None or not isinstance(interaction.user, discord.Member):
        return NOTHING
    rights = channel.permissions_for(interaction.user)
    if isinstance(channel, discord.Thread) and channel.is_private() and not rights.manage_threads:
        return NOTHING  # its members see it too, but who they are is not known here
    return rights
