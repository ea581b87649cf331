"""`/session open`: who may open and lead sessions, the form, the place of a session, and its row."""

from __future__ import annotations

from typing import Any, cast

import discord
from discord import app_commands
from discord.app_commands import AppCommandChannel

from bot.domain.errors import UserMistake
from bot.front.answers.answers import acknowledge, open_form
from bot.front.answers.controls import Form
from bot.front.answers.modals import modal, text_field
from bot.front.answers.permissions import acting
from bot.front.recipes.options import clean
from bot.front.requests.intake import session_here
from bot.front.requests.library import style_of
from bot.front.requests.words import check_texts
from bot.front.services.request import Interaction, Request, patiently
from bot.sessions.planning import MAX_THEME, read_minutes, read_quota, read_theme, read_words
from bot.store.rows.audit import By
from bot.store.rows.sessions import GroupSession, Plan
from bot.texts.catalogue import Texts
from bot.texts.markup import tidy

FORM = "session"
DEFAULT_QUOTA, DEFAULT_VOTE, DEFAULT_HOURS = "4", 5, 6
MINUTE, HOUR = 60.0, 3600.0
THREAD, HERE = "thread", "here"
MAX_THREAD_NAME = 90  # characters
NEEDED = ("view_channel", "attach_files", "read_message_history")
KINDS = [discord.ChannelType.text, discord.ChannelType.news, discord.ChannelType.forum]
Parent = discord.TextChannel | discord.ForumChannel


async def ask_session(
    request: Request,
    *,
    where: str = THREAD,
    channel: AppCommandChannel | None = None,
    role: discord.Role | None = None,
    voting: int = DEFAULT_VOTE,
    hours: int = DEFAULT_HOURS,
    review: bool = False,
) -> None:
    """Open the form; raises UserMistake as `host`, and `session_two_places` for this channel and another."""
    host(request)
    if where == HERE and channel:
        raise UserMistake("session_two_places")
    texts = request.texts
    theme, style, required, minutes, quota = _labels(texts)
    fields = [
        text_field(
            theme,
            "theme",
            "",
            required=False,
            max_length=MAX_THEME,
            description=texts.gettext("These words are added to every prompt."),
        ),
        text_field(
            style,
            "style",
            "",
            required=False,
            max_length=100,
            description=texts.gettext("A style of this server, whose words are added too."),
        ),
        text_field(
            required,
            "required",
            "",
            required=False,
            max_length=500,
            description=texts.gettext("Words that every prompt must have, separated by commas."),
        ),
        text_field(
            minutes,
            "minutes",
            "10",
            required=False,
            max_length=5,
            description=texts.gettext("Left empty, a round ends when you say so."),
        ),
        text_field(quota, "quota", DEFAULT_QUOTA, max_length=5),
    ]
    ids = f"{role.id if role else 0}:{channel.id if channel else 0}"
    custom_id = f"{FORM}:{where}:{ids}:{voting}:{hours}:{int(review)}"
    await open_form(request, modal(texts.gettext("Open a group session"), custom_id, *fields))


def _labels(texts: Texts) -> tuple[str, str, str, str, str]:
    return (
        texts.gettext("Theme"),
        texts.gettext("Style"),
        texts.gettext("Required words"),
        texts.gettext("Minutes of a round"),
        texts.gettext("Pictures for each person and round"),
    )


async def open_session(
    request: Request,
    *,
    where: str,
    role: str,
    channel: str,
    voting: str,
    hours: str,
    review: str,
    theme: str = "",
    style: str = "",
    required: str = "",
    minutes: str = "",
    quota: str = "",
) -> None:
    """Open the session of the form."""
    request.services.pace.admit(request.sender)
    await acknowledge(request, private=True)
    by = host(request)
    (await request.standing()).check_blocked()
    plan = Plan(
        theme=read_theme(clean(theme)),
        required=read_words(clean(required)),
        round_seconds=read_minutes(minutes),
        quota=read_quota(quota),
        vote_seconds=int(voting) * MINUTE,
        session_seconds=int(hours) * HOUR,
        role_id=int(role) or None,
        review=review == "1",
        **await _style(request, style),
    )
    await check_texts(request, [plan.theme, plan.style_prompt, plan.style_negative, *plan.required])
    session = await _open(request, plan, by, parent_of(request, where, int(channel)))
    said = request.texts.gettext("The group session is open: {place}", place=f"<#{session.channel_id}>")
    await request.edit(content=said)


async def _style(request: Request, name: str) -> dict[str, str]:
    if not name.strip():
        return {}
    found = await style_of(request, name.strip())
    texts = {"style_prompt": found.prompt, "style_negative": found.negative_prompt}
    return {"style": found.name, **texts}


async def _open(request: Request, plan: Plan, by: By, parent: Parent | None) -> GroupSession:
    sessions = request.services.store.sessions
    await patiently(sessions.check_room, by.guild_id)  # before a thread is there
    locale = await request.locale_for_all()
    thread = await begin(request, parent, plan, Texts.for_locale(locale)) if parent else None
    return await patiently(
        sessions.open,
        plan,
        by,
        channel_id=thread.id if thread else request.channel_id or 0,
        locale=locale,
    )


CONTROLS = (
    Form(
        template=rf"{FORM}:(?P<where>thread|here):(?P<role>[0-9]{{1,19}}):(?P<channel>[0-9]{{1,19}}):(?P<voting>[0-9]{{1,4}})"
        r":(?P<hours>[0-9]{1,2}):(?P<review>[01])",
        act=open_session,
    ),
)


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


def host(request: Request) -> By:
    """Return the person who opens a session; raises UserMistake `moderate_no_server` or `session_right`."""
    _check_server(request)
    rights, services = request.interaction.permissions, request.services
    if not (getattr(rights, services.host_permission) or rights.manage_messages):
        named = permission_name(services.host_permission, request.texts)
        raise UserMistake("session_right", permission=named)
    return acting(request)


def permission_name(permission: str, texts: Texts) -> str:
    """Return the name that Discord shows for a permission of hosts; see `SessionsConfig`."""
    names = {
        "manage_events": texts.gettext("Manage Events"),
        "manage_messages": texts.gettext("Manage Messages"),
        "manage_threads": texts.gettext("Manage Threads"),
        "create_events": texts.gettext("Create Events"),
    }
    return names[permission]


async def led(request: Request) -> tuple[GroupSession, By]:
    """Return the session of the channel, and its leader: the host, or any moderator.

    Raises UserMistake `moderate_no_server`, `session_none` or `session_host`, and for a blocked person.
    """
    session = await the_session(request)
    (await request.standing()).check_blocked()
    if request.person.id != session.host_id and not request.interaction.permissions.manage_messages:
        raise UserMistake("session_host")
    return session, acting(request)


async def taken(request: Request) -> tuple[GroupSession, By]:
    """Return the session of the channel, and the moderator who becomes its host.

    Raises UserMistake `moderate_no_server`, `session_none` or `session_moderator`.
    """
    session = await the_session(request)
    if not request.interaction.permissions.manage_messages:
        raise UserMistake("session_moderator")
    return session, acting(request)


async def the_session(request: Request) -> GroupSession:
    """Return the session of the channel; raises UserMistake `moderate_no_server` or `session_none`."""
    _check_server(request)
    session = await session_here(request)
    if session is None:
        raise UserMistake("session_none")
    return session


def _check_server(request: Request) -> None:
    if request.server_id is None:
        raise UserMistake("moderate_no_server")
