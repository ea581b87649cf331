"""The state of the sandbox: one small server, its members, its messages; all in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from bot.sandbox.links import Links
from bot.sandbox.permissions import IN_DIRECT_MESSAGES, permissions_in
from bot.sandbox.rejections import Json, unknown_channel, unknown_message

DISCORD_EPOCH_MS = 1_420_070_400_000
GUILD_TEXT = 0
DIRECT_MESSAGE = 1
GROUP_DM = 3
PUBLIC_THREAD = 11
FORUM = 15
ID_DIGITS = 20  # of 64 bits; Python refuses to read numbers of thousands of digits
PRIVATE = (DIRECT_MESSAGE, GROUP_DM)  # the types of channels outside the server


class Flag:
    """Message flags by Discord's names."""

    SUPPRESS_EMBEDS = 1 << 2
    EPHEMERAL = 1 << 6
    LOADING = 1 << 7
    SUPPRESS_NOTIFICATIONS = 1 << 12
    IS_COMPONENTS_V2 = 1 << 15


def number_of(text: object) -> int:
    """Return the number that an id is written as; -1, which nothing has, for any other text."""
    digits = str(text)
    return int(digits) if digits.isdecimal() and len(digits) <= ID_DIGITS else -1


@dataclass(frozen=True, kw_only=True)
class User:
    """A user account."""

    id: int
    username: str
    global_name: str
    locale: str = "en-US"
    bot: bool = False


@dataclass(kw_only=True)
class Member:
    """A member of the server; `roles` are without @everyone; `installed`: the account has the bot.

    A timeout lasts until `silent_until`, in seconds since the epoch.
    """

    user: User
    roles: tuple[int, ...] = ()
    accepts_dms: bool = True
    installed: bool = False
    silent_until: float | None = None


@dataclass(frozen=True, kw_only=True)
class Role:
    """A role of the server; `color` is 0xRRGGBB."""

    id: int
    name: str
    permissions: int
    position: int
    color: int = 0
    bot_id: int | None = None


@dataclass(kw_only=True)
class Channel:
    """A text channel, a forum, a thread or post in `parent_id`, or the direct messages with `recipient_id`.

    A group of direct messages has `members`; the bot is not a member. Members open a `spoiler` channel before
    they see what is in it; it is never `nsfw`.
    """

    id: int
    name: str | None
    type: int = GUILD_TEXT
    topic: str | None = None
    nsfw: bool = False
    spoiler: bool = False
    position: int = 0
    recipient_id: int | None = None
    members: tuple[int, ...] = ()
    last_message_id: int | None = None
    overwrites: dict[int, tuple[int, int]] = field(default_factory=dict)
    parent_id: int | None = None
    owner_id: int | None = None  # of a thread; None stands for the owner of the server
    archived: bool = False
    locked: bool = False
    tags: dict[int, str] = field(default_factory=dict)  # of a forum, by their ids
    tag_required: bool = False


@dataclass(frozen=True, kw_only=True)
class Attachment:
    """An uploaded file; width and height in pixels if it is a picture.

    `place_id` is the id of its channel, or of the command that it was uploaded with. `title` is the original
    name if Discord stores the file under another name.
    """

    id: int
    place_id: int
    filename: str
    content_type: str
    data: bytes = field(repr=False)
    description: str | None = None
    width: int | None = None
    height: int | None = None
    title: str | None = None
    ephemeral: bool = False
    spoiler: bool = False

    @property
    def path(self) -> str:
        """The path of the file in Discord's CDN."""
        folder = "ephemeral-attachments" if self.ephemeral else "attachments"
        return f"/{folder}/{self.place_id}/{self.id}/{self.filename}"


@dataclass(kw_only=True)
class Message:
    """A message; `visible_to` is the only user who sees an ephemeral message."""

    id: int
    channel_id: int
    author_id: int
    created_at: float
    type: int = 0
    content: str = ""
    flags: int = 0
    embeds: list[Json] = field(default_factory=list)
    components: list[Json] = field(default_factory=list)
    attachments: list[Attachment] = field(default_factory=list)
    edited_at: float | None = None
    visible_to: int | None = None
    interaction_metadata: Json | None = None
    interaction: Json | None = None
    webhook_id: int | None = None
    nonce: str | int | None = None
    mentions: tuple[int, ...] = ()
    mention_roles: tuple[int, ...] = ()
    mention_everyone: bool = False
    reference: Json | None = None
    reactions: dict[str, list[int]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Event:
    """An event for members: about a channel's message, or for one member only."""

    type: str
    data: Any
    message: Message | None = None
    member_id: int | None = None


@dataclass(kw_only=True)
class World:
    """The whole state. Ids are snowflakes of the injected clock (seconds since the epoch).

    `note` is Markdown that the page shows every member. `kicked`: the bot was removed from the server.
    Without `external_apps`, the answers of user-installed bots in the server are ephemeral.
    """

    clock: Callable[[], float]
    guild_id: int
    guild_name: str
    owner_id: int
    bot_id: int
    created_at: float
    roles: dict[int, Role] = field(default_factory=dict)
    members: dict[int, Member] = field(default_factory=dict)
    channels: dict[int, Channel] = field(default_factory=dict)
    messages: dict[int, Message] = field(default_factory=dict)
    attachments: dict[int, Attachment] = field(default_factory=dict)
    automod_rules: dict[int, Json] = field(default_factory=dict)
    address: str = ""
    note: str = ""
    kicked: bool = False
    external_apps: bool = True
    links: Links = field(default_factory=Links)
    listeners: list[Callable[[Event], None]] = field(default_factory=list)
    _last_id: int = 0

    @property
    def application_id(self) -> int:
        """The bot's application; as on Discord, its id is the bot user's."""
        return self.bot_id

    def new_id(self) -> int:
        """Return a snowflake that is later than all before."""
        milliseconds = max(int(self.clock() * 1000) - DISCORD_EPOCH_MS, 1)
        self._last_id = max(milliseconds << 22, self._last_id + 1)
        return self._last_id

    def link(self, attachment: Attachment) -> str:
        """Return a file's address; it is valid for at least half a day."""
        uploaded_at = ((attachment.id >> 22) + DISCORD_EPOCH_MS) / 1000
        return self.address + self.links.sign(attachment.path, uploaded_at=uploaded_at, now=self.clock())

    def link_of(self, attachment_id: str) -> str | None:
        """Return the address of the file of this id, or None."""
        found = self.attachments.get(number_of(attachment_id))
        return None if found is None else self.link(found)

    def emit(self, event: Event) -> None:
        """Pass an event to all listeners."""
        for listener in self.listeners:
            listener(event)

    def channel(self, channel_id: str | int) -> Channel:
        """Return a channel; raises Discord's 10003."""
        channel = self.channels.get(number_of(channel_id))
        if channel is None:
            raise unknown_channel()
        return channel

    def message(self, channel_id: int, message_id: str | int) -> Message:
        """Return a message of a channel; raises Discord's 10008."""
        message = self.messages.get(number_of(message_id))
        if message is None or message.channel_id != channel_id:
            raise unknown_message()
        return message

    def messages_in(self, channel_id: int) -> Iterator[Message]:
        """Yield the messages of a channel, oldest first, ephemeral ones included."""
        return (message for message in self.messages.values() if message.channel_id == channel_id)

    def direct_channel(self, user_id: int) -> Channel:
        """Return the bot's direct-message channel with a user; it is created if missing."""
        for channel in self.channels.values():
            if channel.recipient_id == user_id:
                return channel
        channel = Channel(id=self.new_id(), name=None, type=DIRECT_MESSAGE, recipient_id=user_id)
        self.channels[channel.id] = channel
        return channel

    def permissions(self, user_id: int, channel: Channel) -> int:
        """Return a user's permission bits in a channel."""
        if channel.type == DIRECT_MESSAGE:
            return int(IN_DIRECT_MESSAGES) if user_id in (channel.recipient_id, self.bot_id) else 0
        if channel.type == GROUP_DM:
            return int(IN_DIRECT_MESSAGES) if user_id in channel.members else 0
        member = self.members[user_id]
        roles = {role: self.roles[role].permissions for role in (self.guild_id, *member.roles)}
        place = channel if channel.parent_id is None else self.channel(channel.parent_id)
        return permissions_in(user_id, self.guild_id, roles, place.overwrites)

    def user(self, user_id: int) -> User:
        """Return a user's account."""
        return self.members[user_id].user

    def attach(self, attachment: Attachment) -> Attachment:
        """Keep a file under its id until the sandbox stops."""
        self.attachments[attachment.id] = attachment
        return attachment

    def change(self, attachment: Attachment, **fields: Any) -> Attachment:
        """Change the alternative text of a kept file, or whether it is a spoiler."""
        return self.attach(replace(attachment, **fields))
