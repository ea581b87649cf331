"""The actions of members and what members see, with the restrictions of Discord's client."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from bot.sandbox import modal_rules
from bot.sandbox.command_options import ClientRefusal, command_data, find_command
from bot.sandbox.component_rules import BUTTON, FILE_UPLOAD, STRING_SELECT
from bot.sandbox.components import find
from bot.sandbox.context_menus import find_menu, menu_data
from bot.sandbox.core import Core
from bot.sandbox.interactions import Interaction
from bot.sandbox.objects import (
    attachment_object,
    channel_object,
    member_object,
    message_object,
    user_object,
)
from bot.sandbox.permissions import Permission
from bot.sandbox.reactions import MOST_EMOJI, react, unreact
from bot.sandbox.rejections import Json, Rejection
from bot.sandbox.state import (
    DIRECT_MESSAGE,
    FORUM,
    GROUP_DM,
    GUILD_TEXT,
    PRIVATE,
    PUBLIC_THREAD,
    Channel,
    Flag,
    Member,
    Message,
    number_of,
)
from bot.sandbox.uploads import Body, Upload, attachment_of, said_size

LINK_STYLES = (5, 6)
LONGEST_EMOJI = 32  # characters
NO_FILES: Mapping[int, Upload] = MappingProxyType({})


class Refused(Exception):
    """The client does not let a member do this; `sentences` say why."""

    def __init__(self, sentences: list[str]) -> None:
        super().__init__(" ".join(sentences))
        self.sentences = sentences


class Actions:
    """The actions of members. Members and channels are given by name or id."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._world = core.world

    def member(self, wanted: Any) -> Member:
        """Return the member of this id or name."""
        for member in self._world.members.values():
            names = (str(member.user.id), member.user.username, member.user.global_name)
            if str(wanted) in names and not member.user.bot:
                return member
        raise Refused([f"There is no member {wanted}."])

    def channel(self, member: Member, wanted: Any) -> Channel:
        """Return the channel of this id or name, if the member sees it; "dm" is the channel with the bot."""
        if wanted == "dm":
            return self._world.direct_channel(member.user.id)
        for channel in self._world.channels.values():
            if str(wanted).removeprefix("#") in (str(channel.id), channel.name) and self._may_view(
                member, channel
            ):
                return channel
        raise Refused([f"There is no channel {wanted}."])

    def may_view(self, member: Member, channel_id: int) -> bool:
        """Whether a member sees the channel of this id."""
        return self._may_view(member, self._world.channel(channel_id))

    def _may_view(self, member: Member, channel: Channel) -> bool:
        return bool(self._world.permissions(member.user.id, channel) & Permission.VIEW_CHANNEL)

    def sees(self, member: Member, message: Message) -> bool:
        """Whether a message is shown to a member."""
        channel = self._world.channels.get(message.channel_id)
        mine = message.visible_to in (None, member.user.id)
        return mine and channel is not None and self._may_view(member, channel)

    def commands(self, member: Member) -> list[Json]:
        """Return the commands of a member, each with the types of channels that it is `offered_in`."""
        found: dict[str, Json] = {}
        for channel_type in (GUILD_TEXT, DIRECT_MESSAGE, GROUP_DM):
            for command in self._core.commands.offered(channel_type, installed=member.installed):
                if channel_type != GUILD_TEXT or self._may_use(member, command):
                    known = found.setdefault(command["id"], {**command, "offered_in": []})
                    known["offered_in"].append(channel_type)
        return list(found.values())

    def _may_use(self, member: Member, command: Json, channel: Channel | None = None) -> bool:
        needed = command.get("default_member_permissions")
        place = channel or next(iter(self._world.channels.values()))
        held = self._world.permissions(member.user.id, place)
        if place.type in PRIVATE or held & Permission.ADMINISTRATOR:
            return True
        if not held & Permission.USE_APPLICATION_COMMANDS:
            return False
        return needed is None or (int(needed) != 0 and held & int(needed) == int(needed))

    def state(self, wanted: Any) -> Json:
        """Return everything that the page shows a member, by default the owner, except messages."""
        world, member = self._world, self.member(wanted or self._world.owner_id)
        seen = (channel for channel in world.channels.values() if self._may_view(member, channel))
        channels = [each for each in seen if each.type != GROUP_DM or self._core.commands.for_accounts]
        permissions = world.permissions(member.user.id, channels[0]) if channels else 0
        me = {
            **self._person(member),
            "locale": member.user.locale,
            "permissions": str(permissions),
            "moderator": bool(permissions & Permission.ADMINISTRATOR),
            "installed": member.installed,
        }
        return {
            "guild": {"id": str(world.guild_id), "name": world.guild_name},
            "channels": [channel_object(world, channel) for channel in channels],
            "members": [self._person(each) for each in world.members.values()],
            "roles": [{"id": str(role.id), "name": role.name} for role in world.roles.values()],
            "commands": self.commands(member),
            "upload_limit": self._core.limits.member,
            "note": world.note,
            "me": me,
        }

    def _person(self, member: Member) -> Json:
        seen = member_object(self._world, member, with_user=False)
        avatar = f"/avatars/{member.user.id}.svg"
        return {**seen, **user_object(member.user), "roles": seen["roles"], "avatar_url": avatar}

    def messages(self, wanted: Any, channel: Any, interaction: str = "") -> list[Json]:
        """Return the messages that a member sees in a channel, oldest first.

        With the id of an `interaction`, only its answers.
        """
        member = self.member(wanted)
        place = self.channel(member, channel)
        there = self._world.messages_in(place.id)
        seen = [
            each for each in there if interaction in ("", _interaction_of(each)) and self.sees(member, each)
        ]
        return [message_object(self._world, message, viewer=member.user.id) for message in seen]

    def _use(
        self, body: Json, *, files: Mapping[int, Upload] = NO_FILES, focused: str | None = None
    ) -> Interaction:
        member = self.member(body.get("member"))
        channel = self.channel(member, body.get("channel"))
        if channel.type == FORUM:
            raise Refused(["Commands are used in the posts of a forum: open one of them."])
        name, options = str(body.get("name", "")), body.get("options") or {}
        if not isinstance(options, dict):
            raise Refused(["The options must be an object."])
        offered = self._core.commands.offered(channel.type, installed=member.installed)
        usable = [command for command in offered if self._may_use(member, command, channel)]
        try:
            command = find_command(usable, name)
            if command.get("nsfw") and not channel.nsfw:
                raise ClientRefusal([f"/{command['name']} can only be used in a channel for adults."])
            data = command_data(
                self._world,
                channel,
                command,
                name,
                options,
                files=files,
                most_bytes=self._core.limits.member,
                focused=focused,
            )
        except ClientRefusal as refusal:
            raise Refused(refusal.sentences) from None
        full_name = " ".join(name.removeprefix("/").split())
        kind = "command" if focused is None else "autocomplete"
        return self._core.interactions.begin(kind, member.user.id, channel, data, name=full_name)

    async def command(self, body: Json, files: Mapping[int, Upload] = NO_FILES) -> Json:
        """Use a slash command: {member, channel, name, options}, a file by its number in `files`."""
        return {"interaction_id": str(self._use(body, files=files).id)}

    async def menu(self, body: Json) -> Json:
        """Use a message command: {member, message, name}."""
        member = self.member(body.get("member"))
        message = self._message(member, body.get("message"))
        channel = self._world.channels[message.channel_id]
        offered = self._core.commands.offered(channel.type, installed=member.installed)
        usable = [command for command in offered if self._may_use(member, command, channel)]
        try:
            command = find_menu(usable, str(body.get("name", "")))
        except ClientRefusal as refusal:
            raise Refused(refusal.sentences) from None
        if command.get("nsfw") and not channel.nsfw:
            raise Refused([f"“{command['name']}” can only be used in a channel for adults."])
        data = menu_data(self._world, command, message)
        interaction = self._core.interactions.begin(
            "menu", member.user.id, channel, data, name=command["name"]
        )
        return {"interaction_id": str(interaction.id)}

    async def say(self, body: Json, files: Mapping[int, Upload] = NO_FILES) -> Json:
        """Post a message: {member, channel, content}, with files."""
        member = self.member(body.get("member"))
        channel = self.channel(member, body.get("channel"))
        held = self._world.permissions(member.user.id, channel)
        thread = channel.type == PUBLIC_THREAD
        if channel.type == FORUM:
            raise Refused(["Messages are written in the posts of a forum: open one of them."])
        if not held & (Permission.SEND_MESSAGES_IN_THREADS if thread else Permission.SEND_MESSAGES):
            raise Refused(["You may not write here."])
        if files and not held & Permission.ATTACH_FILES:
            raise Refused(["You may not send files here."])
        most = self._core.limits.member
        if heavy := [file.filename for file in files.values() if len(file.data) > most]:
            raise Refused([f"{heavy[0]} is too large: a file may have {said_size(most)}."])
        message = Message(
            id=self._world.new_id(),
            channel_id=channel.id,
            author_id=member.user.id,
            created_at=self._world.clock(),
        )
        try:
            self._core.posting.create(
                Body(json={"content": str(body.get("content") or "")}, files=files), message
            )
        except Rejection as rejection:
            raise Refused([str(rejection)]) from None
        return message_object(self._world, message, viewer=member.user.id)

    async def autocomplete(self, body: Json) -> Json:
        """Request suggestions while typing: the body of `command`, plus `focused`, the option being typed."""
        interaction = self._use(body, focused=str(body.get("focused", "")))
        if not any(option.get("focused") for option in _flat(interaction.data.get("options", []))):
            raise Refused([f"There is no option {body.get('focused')}."])
        if interaction.choices is None:
            return {"choices": []}
        choices = await interaction.choices
        return (
            {"choices": choices, "error": "Loading options failed"}
            if interaction.failed
            else {"choices": choices}
        )

    async def press(self, body: Json) -> Json:
        """Press a button, or choose from a menu: {member, message, custom_id, values}."""
        member = self.member(body.get("member"))
        message = self._message(member, body.get("message"))
        component = find(message.components, str(body.get("custom_id")))
        if component is None:
            raise Refused([f"The message has no component {body.get('custom_id')}."])
        if component.get("disabled") or component.get("style") in LINK_STYLES:
            raise Refused(["This component cannot be pressed."])
        data: Json = {
            "component_type": component["type"],
            "custom_id": component["custom_id"],
            "id": component["id"],
        }
        if component["type"] != BUTTON:
            data |= self._chosen(component, [str(value) for value in body.get("values") or []])
        channel = self._world.channels[message.channel_id]
        interaction = self._core.interactions.begin(
            "component", member.user.id, channel, data, message=message
        )
        return {"interaction_id": str(interaction.id)}

    @staticmethod
    def _chosen(component: Json, values: list[str]) -> Json:
        least, most = component.get("min_values", 1), component.get("max_values", 1)
        if not least <= len(values) <= most:
            raise Refused([f"Choose between {least} and {most}."])
        if component["type"] == STRING_SELECT:
            offered = {str(option["value"]) for option in component["options"]}
            if not set(values) <= offered:
                raise Refused([f"Choose from {', '.join(sorted(offered))}."])
            return {"values": values}
        return {"values": values, "resolved": {}}

    def _message(self, member: Member, wanted: Any) -> Message:
        message = self._world.messages.get(number_of(wanted))
        if message is None or not self.sees(member, message):
            raise Refused([f"There is no message {wanted}."])
        return message

    async def modal(self, body: Json, files: Mapping[int, Upload] = NO_FILES) -> Json:
        """Submit a modal: {member, interaction, values}, files by their numbers in `files`."""
        member = self.member(body.get("member"))
        origin = self._core.interactions.get(number_of(body.get("interaction")))
        if origin is None or origin.modal is None or origin.member_id != member.user.id:
            raise Refused(["There is no such modal."])
        values = dict(body.get("values") or {})
        most = self._core.limits.member
        sentences = modal_rules.refusals(origin.modal, values, files, most_bytes=most)
        if sentences:
            raise Refused(sentences)
        attached = self._attach(origin.modal, values, files, place_id=origin.channel_id)
        data, channel = modal_rules.submission(origin.modal, values), self._world.channels[origin.channel_id]
        if attached:
            data["resolved"] = {"attachments": attached}
        interaction = self._core.interactions.begin(
            "modal", member.user.id, channel, data, name=origin.name, message=origin.message, origin=origin
        )
        return {"interaction_id": str(interaction.id)}

    def _attach(
        self, modal: Json, values: dict[str, Any], files: Mapping[int, Upload], *, place_id: int
    ) -> Json:
        """Replace the numbers of files in `values` by the ids of attachments; return these by their ids."""
        attached: Json = {}
        for _, part, _ in modal_rules.inputs(modal):
            if part["type"] != FILE_UPLOAD:
                continue
            given = values.get(part["custom_id"]) or []
            made = [
                attachment_of(files[number_of(each)], new_id=self._world.new_id(), place_id=place_id)
                for each in (given if isinstance(given, list) else [given])
            ]
            values[part["custom_id"]] = [str(attachment.id) for attachment in made]
            for attachment in made:
                seen = attachment_object(self._world, self._world.attach(attachment))
                attached[str(attachment.id)] = seen
        return attached

    async def delete(self, body: Json) -> Json:
        """Delete a message as a moderator, or dismiss an ephemeral one: {member, message}."""
        member = self.member(body.get("member"))
        message = self._message(member, body.get("message"))
        channel = self._world.channels[message.channel_id]
        held = self._world.permissions(member.user.id, channel)
        if not (message.flags & Flag.EPHEMERAL or held & Permission.MANAGE_MESSAGES):
            raise Refused(["Only a moderator can delete this message."])
        self._core.posting.delete(message)
        return {}

    async def react(self, body: Json) -> Json:
        """Add a reaction, or remove it: {member, message, emoji, on}."""
        member = self.member(body.get("member"))
        message = self._message(member, body.get("message"))
        emoji, here = str(body.get("emoji") or ""), self._world.channels[message.channel_id]
        if message.flags & Flag.EPHEMERAL:
            raise Refused(["Nobody else sees this message: it takes no reactions."])
        if not body.get("on", True):
            unreact(self._world, message, member.user.id, emoji)
            return {}
        new = emoji not in message.reactions
        held = self._world.permissions(member.user.id, here)
        if here.type not in PRIVATE and new and not held & Permission.ADD_REACTIONS:
            raise Refused(["You may not add reactions here."])
        if not emoji or len(emoji) > LONGEST_EMOJI or (new and len(message.reactions) >= MOST_EMOJI):
            raise Refused([f"One emoji, of at most {MOST_EMOJI} under a message."])
        react(self._world, message, member.user.id, emoji)
        return {}

    async def install(self, body: Json) -> Json:
        """Install the bot in a member's account, or uninstall it: {member, installed}."""
        self.member(body.get("member")).installed = bool(body.get("installed", True))
        return {}

    async def dms(self, body: Json) -> Json:
        """Open or close a member's direct messages with the bot: {member, accepts}."""
        self.member(body.get("member")).accepts_dms = bool(body.get("accepts", True))
        return {}


def _interaction_of(message: Message) -> str:
    """The id of the interaction that a message answers, or ""."""
    metadata: Json = message.interaction_metadata or {}
    return str(metadata.get("id", ""))


def _flat(options: list[Json]) -> list[Json]:
    return [each for option in options for each in (option, *_flat(option.get("options", [])))]
