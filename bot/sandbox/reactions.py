"""Reactions of members and the bot to messages."""

from __future__ import annotations

from bot.sandbox.objects import member_object
from bot.sandbox.rejections import Json
from bot.sandbox.state import PRIVATE, Event, Message, World

ADDED, REMOVED = "MESSAGE_REACTION_ADD", "MESSAGE_REACTION_REMOVE"
REACTION_EVENTS = frozenset({ADDED, REMOVED})
MOST_EMOJI = 20  # of one message


def react(world: World, message: Message, user_id: int, emoji: str) -> None:
    """Add a user's reaction to a message, unless it exists."""
    users = message.reactions.setdefault(emoji, [])
    if user_id not in users:
        users.append(user_id)
        world.emit(
            Event(type=ADDED, data=_change(world, message, user_id, emoji, added=True), message=message)
        )


def unreact(world: World, message: Message, user_id: int, emoji: str) -> None:
    """Remove a user's reaction from a message, if it exists."""
    users = message.reactions.get(emoji, [])
    if user_id in users:
        users.remove(user_id)
        if not users:
            del message.reactions[emoji]
        change = _change(world, message, user_id, emoji, added=False)
        world.emit(Event(type=REMOVED, data=change, message=message))


def _change(world: World, message: Message, user_id: int, emoji: str, *, added: bool) -> Json:
    """Return the data of the gateway's event about a reaction."""
    said: Json = {
        "user_id": str(user_id),
        "channel_id": str(message.channel_id),
        "message_id": str(message.id),
        "emoji": {"id": None, "name": emoji},
        "burst": False,
        "type": 0,
    }
    in_server = world.channels[message.channel_id].type not in PRIVATE
    if in_server:
        said["guild_id"] = str(world.guild_id)
    if added:
        said["message_author_id"] = str(message.author_id)
        if in_server and user_id in world.members:
            said["member"] = member_object(world, world.members[user_id])
    return said
