"""Where a session is opened: this channel, a thread that the bot begins, or a post in a forum."""

from __future__ import annotations

from typing import Any, cast

import discord
from discord import app_commands
from discord.app_commands import AppCommandChannel

from bot.domain.errors import UserMistake
from bot.front.services.request import Interaction, Request
from bot.store.rows.sessions import Plan
from bot.texts.catalogue import Texts
from bot.texts.markup import tidy

THREAD, HERE = "thread", "here"
MAX_THREAD_NAME = 90  # characters
NEEDED = ("view_channel", "attach_files", "read_message_history")
KINDS = [discord.ChannelType.text, discord.ChannelType.news, discord.ChannelType.forum]
Parent = discord.TextChannel | discord.ForumChannel


class ParentOption(app_commands.Transformer):
    """An option for a channel in which a thread or a post can begin."""

    @property
    def type(self) -> discord.AppCommandOptionType:
        """A channel."""
        return discord.AppCommandOptionType.channel

    @property
    def channel_types(self) -> list[discord.ChannelType]:
        """The kinds of channels that Discord lists."""
        return KINDS

    async def transform(self, _interaction: Interaction, value: Any, /) -> AppCommandChannel:
        """Return the channel as Discord describes it."""
        return cast("AppCommandChannel", value)


def parent_of(request: Request, where: str, channel_id: int) -> Parent | None:
    """Return the channel or forum in which a session begins a thread or a post; None for this channel itself.

    Without a `channel_id` it is this channel, or that of this thread or post. Raises UserMistake where the
    bot could not begin and show the session, or the person may not write.
    """
    if where == HERE:
        _check_shown(
            request.interaction.app_permissions, in_thread=isinstance(request.channel, discord.Thread)
        )
        return None
    parent = _named(request, channel_id) if channel_id else _near(request)
    if parent.id == request.channel_id:
        rights = request.interaction.app_permissions
    else:
        _check_person(request, parent)
        rights = parent.permissions_for(parent.guild.me)
    if isinstance(parent, discord.ForumChannel) and not rights.send_messages:  # the right to create posts
        raise UserMistake("session_no_post")
    _check_shown(rights, in_thread=True)
    return parent


def _named(request: Request, channel_id: int) -> Parent:
    channel = request.interaction.guild.get_channel(channel_id) if request.interaction.guild else None
    if not isinstance(channel, Parent):  # it was deleted since, or the bot does not see it
        raise UserMistake("session_no_right")
    return channel


def _near(request: Request) -> Parent:
    channel = request.channel
    if isinstance(channel, discord.Thread):
        channel = channel.parent
    if not isinstance(channel, Parent):
        raise UserMistake("session_no_thread")
    return channel


def _check_person(request: Request, parent: Parent) -> None:
    """Raise UserMistake `session_not_there` where the person may not write."""
    rights = discord.Permissions.none()
    if isinstance(request.person, discord.Member):
        rights = parent.permissions_for(request.person)
    if not (rights.view_channel and rights.send_messages):
        raise UserMistake("session_not_there", channel=f"<#{parent.id}>")


def _check_shown(rights: discord.Permissions, *, in_thread: bool) -> None:
    """Raise UserMistake `session_no_right` where the bot could not show the session."""
    sends = rights.send_messages_in_threads if in_thread else rights.send_messages
    if not (sends and all(getattr(rights, name) for name in NEEDED)):
        raise UserMistake("session_no_right")


async def begin(request: Request, parent: Parent, plan: Plan, texts: Texts) -> discord.Thread:
    """Create the session's thread or post; raises UserMistake `session_no_thread` or `session_no_post`."""
    name = tidy(plan.theme) or texts.gettext("Group session")
    try:
        if isinstance(parent, discord.ForumChannel):
            return await _post(request, parent, name[:MAX_THREAD_NAME], texts)
        news = parent.is_news()
        kind = discord.ChannelType.news_thread if news else discord.ChannelType.public_thread
        return await parent.create_thread(name=name[:MAX_THREAD_NAME], type=kind)
    except discord.HTTPException as error:  # without the right, or Discord takes no more threads here
        if error.status >= 500:  # also an answer that is not Discord's own
            raise
        forum = isinstance(parent, discord.ForumChannel)
        raise UserMistake("session_no_post" if forum else "session_no_thread") from None


async def _post(request: Request, forum: discord.ForumChannel, name: str, texts: Texts) -> discord.Thread:
    said = texts.gettext(
        "{host} has opened a group session: paint here with {command}.",
        host=f"<@{request.person.id}>",
        command=f"`/{texts.pgettext('name', 'imagine')}`",
    )
    # A forum may want a tag on every post; a moderated one would need a right of its own.
    tags = [tag for tag in forum.available_tags if not tag.moderated] if forum.flags.require_tag else []
    nobody = discord.AllowedMentions.none()
    created = await forum.create_thread(
        name=name, content=texts.line(said), applied_tags=tags[:1], allowed_mentions=nobody
    )
    return created.thread
