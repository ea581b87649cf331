"""Discord's JSON objects, made from the state; pure."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from bot.sandbox.components import ATTACHMENT, refreshed
from bot.sandbox.rejections import Json
from bot.sandbox.state import (
    DIRECT_MESSAGE,
    FORUM,
    GROUP_DM,
    GUILD_TEXT,
    PUBLIC_THREAD,
    Attachment,
    Channel,
    Flag,
    Member,
    Message,
    Role,
    User,
    World,
)

UNSEEN: Json = {"content": "", "embeds": [], "attachments": [], "components": []}
"""Fields of other users' messages, as a bot without the message content intent gets them."""

REQUIRE_TAG = 1 << 4
"""The flag of a forum in which every post needs a tag."""

IS_SPOILER_CHANNEL = 1 << 21
"""The flag of a channel that members open before they see what is in it; only without `nsfw`."""

IS_SPOILER = 1 << 3
"""The flag of a covered file (discord/discord-api-docs#8429)."""

INTERACTION_TYPES = {"command": 2, "menu": 2, "component": 3, "autocomplete": 4, "modal": 5}


def timestamp(seconds: float) -> str:
    """ISO 8601 in UTC with microseconds, as Discord writes it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")


def user_object(user: User) -> Json:
    """A user as others see it."""
    seen: Json = {
        "id": str(user.id),
        "username": user.username,
        "global_name": user.global_name,
        "discriminator": "0",
        "avatar": None,
        "avatar_decoration_data": None,
        "public_flags": 0,
        "flags": 0,
        "primary_guild": None,
    }
    return {**seen, "bot": True} if user.bot else seen


def own_user_object(user: User) -> Json:
    """The bot's own user, as /users/@me answers."""
    return {**user_object(user), "mfa_enabled": True, "locale": user.locale, "verified": True, "email": None}


def member_object(world: World, member: Member, *, with_user: bool = True) -> Json:
    """A member of the server."""
    until = member.silent_until
    seen: Json = {
        "avatar": None,
        "banner": None,
        "communication_disabled_until": None if until is None else timestamp(until),
        "flags": 0,
        "joined_at": timestamp(world.created_at),
        "nick": None,
        "pending": False,
        "premium_since": None,
        "roles": [str(role) for role in member.roles],
        "mute": False,
        "deaf": False,
    }
    return {**seen, "user": user_object(member.user)} if with_user else seen


def own_guild_object(world: World) -> Json:
    """The server as /users/@me/guilds answers the bot."""
    roles = [world.roles[role].permissions for role in world.members[world.bot_id].roles]
    return {
        "id": str(world.guild_id),
        "name": world.guild_name,
        "icon": None,
        "banner": None,
        "owner": world.owner_id == world.bot_id,
        "permissions": str(functools.reduce(operator.or_, roles, world.roles[world.guild_id].permissions)),
        "features": [],
    }


def role_object(role: Role) -> Json:
    """A role of the server."""
    seen: Json = {
        "id": str(role.id),
        "name": role.name,
        "permissions": str(role.permissions),
        "position": role.position,
        "color": role.color,
        "colors": {"primary_color": role.color, "secondary_color": None, "tertiary_color": None},
        "hoist": False,
        "managed": role.bot_id is not None,
        "mentionable": False,
        "icon": None,
        "unicode_emoji": None,
        "flags": 0,
    }
    return {**seen, "tags": {"bot_id": str(role.bot_id)}} if role.bot_id is not None else seen


def channel_object(world: World, channel: Channel) -> Json:
    """A channel of any type: text, forum, thread, direct messages or a group of them."""
    seen: Json = {
        "id": str(channel.id),
        "type": channel.type,
        "flags": REQUIRE_TAG if channel.tag_required else 0,
        "last_message_id": str(channel.last_message_id) if channel.last_message_id else None,
    }
    if channel.type == DIRECT_MESSAGE:
        recipient = world.user(channel.recipient_id or world.bot_id)
        return {**seen, "recipients": [user_object(recipient)]}
    if channel.type == GROUP_DM:
        recipients = [user_object(world.user(user_id)) for user_id in channel.members]
        owner = str(channel.members[0])
        return {**seen, "name": channel.name, "icon": None, "owner_id": owner, "recipients": recipients}
    if channel.type == PUBLIC_THREAD:
        return {**seen, **_thread(world, channel)}
    return {
        **seen,
        **(_forum(channel) if channel.type == FORUM else {}),
        "guild_id": str(world.guild_id),
        "name": channel.name,
        "topic": channel.topic,
        "nsfw": channel.nsfw,
        "flags": seen["flags"] | (IS_SPOILER_CHANNEL if channel.spoiler else 0),
        "position": channel.position,
        "parent_id": None,
        "rate_limit_per_user": 0,
        "permission_overwrites": [
            {
                "id": str(target),
                "type": 0 if target in world.roles else 1,
                "allow": str(allow),
                "deny": str(deny),
            }
            for target, (allow, deny) in channel.overwrites.items()
        ],
    }


def _forum(channel: Channel) -> Json:
    tags = [
        {"id": str(tag_id), "name": name, "moderated": False, "emoji_id": None, "emoji_name": None}
        for tag_id, name in channel.tags.items()
    ]
    return {
        "available_tags": tags,
        "default_reaction_emoji": None,
        "default_sort_order": None,
        "default_forum_layout": 0,
    }


def _thread(world: World, thread: Channel) -> Json:
    count = len([*world.messages_in(thread.id)])
    at = timestamp(world.created_at)
    return {
        "guild_id": str(world.guild_id),
        "name": thread.name,
        "parent_id": str(thread.parent_id),
        "owner_id": str(thread.owner_id or world.owner_id),
        "rate_limit_per_user": 0,
        "message_count": count,
        "member_count": 1,
        "total_message_sent": count,
        "thread_metadata": {
            "archived": thread.archived,
            "archive_timestamp": at,
            "auto_archive_duration": 1440,
            "locked": thread.locked,
            "create_timestamp": at,
        },
    }


def interaction_channel_object(world: World, channel: Channel, user_id: int) -> Json:
    """A channel in an interaction, with the permissions of the acting member."""
    seen = channel_object(world, channel)
    seen.pop("permission_overwrites", None)
    if channel.type == DIRECT_MESSAGE:
        return {**seen, "name": None}
    if channel.type == GROUP_DM:
        return seen
    return {**seen, "permissions": str(world.permissions(user_id, channel))}


def guild_object(world: World) -> Json:
    """The server, without its channels and members."""
    nothing: dict[str, Any] = dict.fromkeys(
        (
            "icon", "description", "home_header", "splash", "discovery_splash", "banner", "application_id",
            "afk_channel_id", "system_channel_id", "widget_channel_id", "vanity_url_code", "max_presences",
            "rules_channel_id", "safety_alerts_channel_id", "public_updates_channel_id", "incidents_data",
            "hub_type",
        )
    )  # fmt: skip
    return {
        **nothing,
        "id": str(world.guild_id),
        "name": world.guild_name,
        "owner_id": str(world.owner_id),
        "features": [],
        "region": "us-central",
        "afk_timeout": 300,
        "system_channel_flags": 0,
        "widget_enabled": False,
        "verification_level": 1,
        "roles": [role_object(role) for role in world.roles.values()],
        "default_message_notifications": 1,
        "mfa_level": 0,
        "explicit_content_filter": 2,
        "max_members": 500_000,
        "max_stage_video_channel_users": 50,
        "max_video_channel_users": 25,
        "premium_tier": 0,
        "premium_subscription_count": 0,
        "preferred_locale": "en-US",
        "premium_progress_bar_enabled": False,
        "nsfw": False,
        "nsfw_level": 0,
        "emojis": [],
        "stickers": [],
    }


def guild_channel_objects(world: World) -> list[Json]:
    """The server's channels, without threads."""
    channels = [channel for channel in world.channels.values() if channel.type in (GUILD_TEXT, FORUM)]
    return [channel_object(world, channel) for channel in channels]


def guild_create_object(world: World) -> Json:
    """The server in GUILD_CREATE, for a bot without the members intent."""
    threads = [channel for channel in world.channels.values() if channel.type == PUBLIC_THREAD]
    return {
        **guild_object(world),
        "joined_at": timestamp(world.created_at),
        "large": False,
        "unavailable": False,
        "member_count": len(world.members),
        "members": [member_object(world, world.members[world.bot_id])],
        "channels": guild_channel_objects(world),
        "threads": [channel_object(world, thread) for thread in threads if not thread.archived],
        "presences": [],
        "voice_states": [],
        "stage_instances": [],
        "guild_scheduled_events": [],
        "soundboard_sounds": [],
    }


def attachment_object(world: World, attachment: Attachment) -> Json:
    """An uploaded file with a freshly signed address."""
    url = world.link(attachment)
    seen: Json = {
        "id": str(attachment.id),
        "filename": attachment.filename,
        "size": len(attachment.data),
        "url": url,
        "proxy_url": url,
        "content_type": attachment.content_type,
    }
    if attachment.title is not None:
        seen["title"] = attachment.title
    if attachment.description is not None:
        seen["description"] = attachment.description
    if attachment.width is not None:
        seen |= {"width": attachment.width, "height": attachment.height}
    if attachment.ephemeral:
        seen["ephemeral"] = True
    if attachment.spoiler:
        seen["flags"] = IS_SPOILER
    return seen


def message_object(world: World, message: Message, *, viewer: int | None = None, whole: bool = False) -> Json:
    """A message in REST answers to the bot, or for another viewer.

    Without `whole` the contents of messages between others are left out for the bot, which lacks the intent.
    """
    v2 = bool(message.flags & Flag.IS_COMPONENTS_V2)
    seen: Json = {
        "id": str(message.id),
        "channel_id": str(message.channel_id),
        "type": message.type,
        "author": user_object(world.user(message.author_id)),
        "content": "" if v2 else message.content,
        "timestamp": timestamp(message.created_at),
        "edited_timestamp": timestamp(message.edited_at) if message.edited_at is not None else None,
        "flags": message.flags,
        "embeds": [_embed_object(world, embed, message) for embed in message.embeds],
        "components": refreshed(message.components, world.link_of),
        "attachments": [attachment_object(world, each) for each in _listed(message, viewer)],
        "mentions": [user_object(world.user(user)) for user in message.mentions],
        "mention_roles": [str(role) for role in message.mention_roles],
        "mention_everyone": message.mention_everyone,
        "pinned": False,
        "tts": False,
    }
    optional: dict[str, Any] = {
        "nonce": message.nonce,
        "interaction_metadata": message.interaction_metadata,
        "interaction": message.interaction,
        "message_reference": message.reference,
        "webhook_id": str(message.webhook_id) if message.webhook_id else None,
        "application_id": str(message.webhook_id) if message.webhook_id else None,
        "reactions": [
            reaction_object(emoji, users, viewer=viewer or world.bot_id)
            for emoji, users in message.reactions.items()
        ]
        or None,
    }
    seen |= {key: value for key, value in optional.items() if value is not None}
    return seen | UNSEEN if viewer is None and not whole and not _is_for_bot(world, message) else seen


def _listed(message: Message, viewer: int | None) -> list[Attachment]:
    """Return the attachments that a message lists: for the bot, without those that its components show."""
    if viewer is not None:
        return list(message.attachments)
    shown = str(message.components)
    return [each for each in message.attachments if str(each.id) not in shown]


def _is_for_bot(world: World, message: Message) -> bool:
    """Whether the bot may read a message without the content intent: its own messages, and messages to it."""
    direct = world.channels[message.channel_id].type == DIRECT_MESSAGE
    return direct or message.author_id == world.bot_id or world.bot_id in message.mentions


def _embed_object(world: World, embed: Json, message: Message) -> Json:
    """An embed with current addresses of its pictures: files of the message, or the media proxy."""
    seen = dict(embed)
    if "fields" in embed:
        seen["fields"] = [{"inline": False, **field} for field in embed["fields"] or []]
    for name in ("image", "thumbnail"):
        url = str((embed.get(name) or {}).get("url") or "")
        if url.startswith(ATTACHMENT):
            files = {each.filename: each for each in message.attachments}
            file = files.get(url.removeprefix(ATTACHMENT))
            seen[name] = {} if file is None else _picture_object(world, file)
        elif url:
            scheme, _, rest = url.partition("://")
            seen[name] = {"url": url, "proxy_url": f"{world.address}/external/0/{scheme}/{rest}"}
    return seen


def _picture_object(world: World, file: Attachment) -> Json:
    seen = attachment_object(world, file)
    fields = ("url", "proxy_url", "width", "height", "content_type")
    return {field: seen[field] for field in fields if field in seen}


def message_event(world: World, message: Message) -> Json:
    """A message in gateway events: with its server and its author's member object."""
    seen = message_object(world, message)
    if world.channels[message.channel_id].type == DIRECT_MESSAGE:
        return seen
    member = member_object(world, world.members[message.author_id], with_user=False)
    return {**seen, "guild_id": str(world.guild_id), "member": member}


def reaction_object(emoji: str, users: list[int], *, viewer: int) -> Json:
    """The count of a reaction, and whether the viewer gave it."""
    return {
        "emoji": {"id": None, "name": emoji},
        "count": len(users),
        "count_details": {"normal": len(users), "burst": 0},
        "burst_colors": [],
        "me_burst": False,
        "me": viewer in users,
    }


def application_object(world: World, redirect_uris: Iterable[str] = ()) -> Json:
    """The bot's application, as the bot's token sees it."""
    return {
        "id": str(world.application_id),
        "name": world.user(world.bot_id).global_name,
        "icon": None,
        "description": "Paints what a community types.",
        "type": None,
        "bot": user_object(world.user(world.bot_id)),
        "bot_public": True,
        "bot_require_code_grant": False,
        "verify_key": "0" * 64,
        "flags": 0,
        "flags_new": "0",
        "redirect_uris": list(redirect_uris),
        "interactions_endpoint_url": None,
        "role_connections_verification_url": None,
        "owner": user_object(world.user(world.owner_id)),
        "approximate_guild_count": 1,
        "approximate_user_install_count": 0,
        "approximate_user_authorization_count": 0,
        "explicit_content_filter": 0,
        "team": None,
        "eligible_oauth2_scopes": [],
        "integration_types_config": {"0": {}},
    }
