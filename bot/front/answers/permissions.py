"""Permissions: who may see, repeat and change a job."""

from __future__ import annotations

import discord

from bot.domain.errors import UserMistake
from bot.domain.jobs import Job
from bot.front.services.services import Interaction
from bot.store.rows.audit import By

NOTHING = discord.Permissions.none()


def sees(interaction: Interaction, job: Job) -> bool:
    """Return whether the person may see the channel of `job`."""
    if interaction.guild_id is None and job.origin.guild_id is None:
        return interaction.channel_id == job.origin.channel_id
    return _rights(interaction, job).view_channel


def moderates(interaction: Interaction, job: Job) -> bool:
    """Return whether the person may manage messages in the server's channel of `job`."""
    return job.origin.guild_id is not None and _rights(interaction, job).manage_messages


def kept_server(interaction: Interaction) -> int:
    """Return the server whose styles and lists the person may change.

    Raises UserMistake `kept_no_server` in a direct message, `moderate_no_server` in a server without the bot,
    whose departure would never be noted, `kept_right` without the right.
    """
    if interaction.guild_id is None:
        raise UserMistake("kept_no_server")
    if not interaction.is_guild_integration():
        raise UserMistake("moderate_no_server")
    if not interaction.permissions.manage_messages:
        raise UserMistake("kept_right")
    return interaction.guild_id


def moderated_server(interaction: Interaction, *, channel: bool = False) -> int:
    """Return the server that the person moderates; with `channel`, moderating this channel is enough.

    Raises UserMistake `moderate_no_server` where there is no server that has the bot, `moderate_right`
    without the right to manage messages.
    """
    if interaction.guild_id is None or not interaction.is_guild_integration():
        raise UserMistake("moderate_no_server")
    rights = interaction.permissions if channel else server_rights(interaction.user)
    if not rights.manage_messages:
        raise UserMistake("moderate_right")
    return interaction.guild_id


def managed_server(interaction: Interaction) -> int:
    """Return the server that the person manages.

    Raises UserMistake `moderate_no_server` where there is no server that has the bot, `policy_right` without
    the right to manage the server.
    """
    if interaction.guild_id is None or not interaction.is_guild_integration():
        raise UserMistake("moderate_no_server")
    if not server_rights(interaction.user).manage_guild:
        raise UserMistake("policy_right")
    return interaction.guild_id


def server_rights(person: discord.User | discord.Member) -> discord.Permissions:
    """Return what a member may do in the whole server; nothing for a person who is not in it."""
    if not isinstance(person, discord.Member):
        return NOTHING
    if not person.guild.roles:  # the gateway has not sent the server yet
        return person.resolved_permissions or NOTHING
    return person.guild_permissions


def owns_server(interaction: Interaction) -> bool:
    """Return whether the person owns the server of the interaction."""
    return interaction.guild is not None and interaction.guild.owner_id == interaction.user.id


def check_blockable(interaction: Interaction, person: discord.User | discord.Member) -> None:
    """Raise UserMistake if the person is the one who asks, a bot, or a moderator or owner of the server."""
    if person.id == interaction.user.id:
        raise UserMistake("block_self")
    if person.bot:
        raise UserMistake("block_bot")
    here = person.resolved_permissions if isinstance(person, discord.Member) else None
    if server_rights(person).manage_messages or (here and here.manage_messages):
        raise UserMistake("block_moderator")


def acting(interaction: Interaction, reason: str = "") -> By:
    """Return who acts, for the log."""
    return By(actor_id=interaction.user.id, guild_id=interaction.guild_id or 0, reason=reason)


def moderator_of(interaction: Interaction, job: Job) -> By | None:
    """Return who acts on another person's job, for the log; None for its own person."""
    return None if job.origin.user_id == interaction.user.id else acting(interaction)


def may_repeat(interaction: Interaction, job: Job, *, privately: bool) -> bool:
    """Return whether the person may repeat `job`, in an answer for them alone if `privately`.

    The owner may, but a private job is never repeated in an answer that other members see. Any other person
    may repeat a public job whose channel they may see, unless its words are held by a rule.
    """
    if job.origin.user_id != interaction.user.id:
        return not (job.origin.private or job.hides_words) and sees(interaction, job)
    return privately or not job.origin.private or interaction.guild_id is None


def asker(interaction: Interaction, job: Job) -> int | None:
    """Return the owner that a change of `job` requires: the person, or None (any owner) for a moderator."""
    return None if moderates(interaction, job) else interaction.user.id


def _rights(interaction: Interaction, job: Job) -> discord.Permissions:
    """Return the permissions in the job's channel; in a deleted or hidden one only an administrator's."""
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
        return NOTHING  # the thread's members see it too, but the front does not know them
    return rights
