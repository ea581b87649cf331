"""Permissions: who may see, repeat and change a job."""

from __future__ import annotations

import discord

from bot.domain.channels import ChannelKind
from bot.domain.errors import UserMistake
from bot.domain.jobs import Job
from bot.front.services.request import Request
from bot.store.rows.audit import By

NOTHING = discord.Permissions.none()


def sees(request: Request, job: Job) -> bool:
    """Return whether the person may see the channel of `job`."""
    if request.guild_id is None and job.origin.guild_id is None:
        return request.channel_id == job.origin.channel_id
    return _rights(request, job).view_channel


def moderates(request: Request, job: Job) -> bool:
    """Return whether the person may manage messages in the server's channel of `job`."""
    return job.origin.guild_id is not None and _rights(request, job).manage_messages


def kept_server(request: Request) -> int:
    """Return the server whose styles and lists the person may change.

    Raises UserMistake `kept_no_server` in a direct message, `moderate_no_server` in a server without the bot,
    whose departure would never be noted, `kept_right` without the right.
    """
    if request.guild_id is None:
        raise UserMistake("kept_no_server")
    if not request.interaction.is_guild_integration():
        raise UserMistake("moderate_no_server")
    if not request.interaction.permissions.manage_messages:
        raise UserMistake("kept_right")
    return request.guild_id


def moderated_server(request: Request, *, channel: bool = False) -> int:
    """Return the server that the person moderates; with `channel`, moderating this channel is enough.

    Raises UserMistake `moderate_no_server` where there is no server that has the bot, `moderate_right`
    without the right to manage messages.
    """
    if (server_id := request.server_id) is None:
        raise UserMistake("moderate_no_server")
    rights = request.interaction.permissions if channel else server_rights(request.person)
    if not rights.manage_messages:
        raise UserMistake("moderate_right")
    return server_id


def managed_server(request: Request) -> int:
    """Return the server that the person manages.

    Raises UserMistake `moderate_no_server` where there is no server that has the bot, `policy_right` without
    the right to manage the server.
    """
    if (server_id := request.server_id) is None:
        raise UserMistake("moderate_no_server")
    if not server_rights(request.person).manage_guild:
        raise UserMistake("policy_right")
    return server_id


def server_rights(person: discord.User | discord.Member) -> discord.Permissions:
    """Return what a member may do in the whole server; nothing for a person who is not in it."""
    if not isinstance(person, discord.Member):
        return NOTHING
    if not person.guild.roles:  # the gateway has not sent the server yet
        return person.resolved_permissions or NOTHING
    return person.guild_permissions


def owns_server(request: Request) -> bool:
    """Return whether the person owns the server of the interaction."""
    return request.interaction.guild is not None and request.interaction.guild.owner_id == request.person.id


def check_blockable(request: Request, person: discord.User | discord.Member) -> None:
    """Raise UserMistake if the person is the one who asks, a bot, or a moderator or owner of the server."""
    if person.id == request.person.id:
        raise UserMistake("block_self")
    if person.bot:
        raise UserMistake("block_bot")
    here = person.resolved_permissions if isinstance(person, discord.Member) else None
    if server_rights(person).manage_messages or (here and here.manage_messages):
        raise UserMistake("block_moderator")


def acting(request: Request, reason: str = "") -> By:
    """Return who acts, for the log."""
    return By(actor_id=request.person.id, guild_id=request.guild_id or 0, reason=reason)


def moderator_of(request: Request, job: Job) -> By | None:
    """Return who acts on another person's job, for the log; None for its own person."""
    return None if job.origin.user_id == request.person.id else acting(request)


def may_repeat(request: Request, job: Job, *, privately: bool) -> bool:
    """Return whether the person may repeat `job`, in an answer for them alone if `privately`.

    The owner may, but a private job is never repeated in an answer that other members see. Any other person
    may repeat a public job whose channel they may see, unless its words are held by a rule.
    """
    if job.origin.user_id != request.person.id:
        return not (job.origin.private or job.hides_words) and sees(request, job)
    return privately or not job.origin.private or request.guild_id is None


def may_be_seen(request: Request, job: Job) -> bool:
    """Return whether the request's channel is for adults alone if that of the job was."""
    adults = ChannelKind.AGE_RESTRICTED
    return job.origin.channel_kind is not adults or request.channel_kind is adults


def asker(request: Request, job: Job) -> int | None:
    """Return the owner that a change of `job` requires: the person, or None (any owner) for a moderator."""
    return None if moderates(request, job) else request.person.id


def _rights(request: Request, job: Job) -> discord.Permissions:
    """Return the permissions in the job's channel; in a deleted or hidden one only an administrator's."""
    if job.origin.guild_id != request.guild_id:
        return NOTHING
    if job.origin.channel_id == request.channel_id or request.interaction.permissions.administrator:
        return request.interaction.permissions
    guild = request.interaction.guild
    channel = guild.get_channel_or_thread(job.origin.channel_id) if guild else None
    if channel is None or not isinstance(request.person, discord.Member):
        return NOTHING
    rights = channel.permissions_for(request.person)
    if isinstance(channel, discord.Thread) and channel.is_private() and not rights.manage_threads:
        return NOTHING  # the thread's members see it too, but the front does not know them
    return rights
