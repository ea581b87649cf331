"""What Discord's client does before it sends a command: find it, check the options, make the data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bot.sandbox import command_rules as kinds
from bot.sandbox.objects import attachment_object, member_object, role_object, user_object
from bot.sandbox.rejections import Json
from bot.sandbox.state import Attachment, Channel, World, number_of
from bot.sandbox.uploads import Upload, attachment_of, check_upload


class ClientRefusal(Exception):
    """Discord's client does not send this; `sentences` say why."""

    def __init__(self, sentences: list[str]) -> None:
        super().__init__(" ".join(sentences))
        self.sentences = sentences


@dataclass(kw_only=True)
class _Typed:
    """The context of typed options, the files attached so far, and the mistakes found so far."""

    world: World
    channel: Channel
    command_id: int
    files: Mapping[int, Upload]
    most_bytes: int
    focused: str | None
    attached: list[Attachment] = field(default_factory=list)
    resolved: dict[str, dict[str, Json]] = field(default_factory=dict)
    mistakes: list[str] = field(default_factory=list)


def find_command(commands: Iterable[Json], name: str) -> Json:
    """Return the slash command whose name starts a typed name; raises `ClientRefusal`."""
    wanted = name.removeprefix("/").split()
    offered = [command for command in commands if command["type"] == kinds.CHAT_INPUT]
    for command in offered:
        if wanted and command["name"] == wanted[0]:
            return command
    there = ", ".join(f"/{command['name']}" for command in offered) or "none"
    raise ClientRefusal([f"There is no command /{name.removeprefix('/')}; there are: {there}."])


def command_data(
    world: World,
    channel: Channel,
    command: Json,
    name: str,
    options: Mapping[str, Any],
    *,
    files: Mapping[int, Upload],
    most_bytes: int,
    focused: str | None = None,
) -> Json:
    """Return the data of the interaction; raises `ClientRefusal` with every mistake.

    `name` may include subcommands ("settings show"). The value of a file option is the file's number in
    `files`; each file may have up to `most_bytes`. With `focused`, the option being typed, no option is
    required, and the focused option's text is not checked.
    """
    typed = _Typed(
        world=world,
        channel=channel,
        command_id=int(command["id"]),
        files=files,
        most_bytes=most_bytes,
        focused=focused,
    )
    data: Json = {"id": command["id"], "name": command["name"], "type": kinds.CHAT_INPUT}
    if "guild_id" in command:
        data["guild_id"] = command["guild_id"]
    path = name.removeprefix("/").split()[1:]
    data["options"] = _walk_down(command.get("options") or [], path, dict(options), typed)
    if typed.mistakes:
        raise ClientRefusal(typed.mistakes)
    for attachment in typed.attached:
        world.attach(attachment)
    if typed.resolved:
        data["resolved"] = typed.resolved
    return data


def _walk_down(declared: list[Json], path: list[str], options: dict[str, Any], typed: _Typed) -> list[Json]:
    below = [each for each in declared if each["type"] in (kinds.SUBCOMMAND, kinds.SUBCOMMAND_GROUP)]
    if not below:
        if path:
            typed.mistakes.append(f"There is no subcommand {path[0]}.")
        return _filled_in(declared, options, typed)
    found = next((each for each in below if path and each["name"] == path[0]), None)
    if found is None:
        typed.mistakes.append(f"Choose one of {', '.join(each['name'] for each in below)}.")
        return []
    inner = _walk_down(found.get("options") or [], path[1:], options, typed)
    return [{"type": found["type"], "name": found["name"], "options": inner}]


def _filled_in(declared: list[Json], options: dict[str, Any], typed: _Typed) -> list[Json]:
    known = {each["name"] for each in declared}
    typed.mistakes += [f"There is no option {name}." for name in options if name not in known]
    filled: list[Json] = []
    for option in declared:
        name, value = option["name"], options.get(option["name"])
        if name == typed.focused:
            entry: Json = {"type": option["type"], "name": name, "value": "" if value is None else str(value)}
            filled.append({**entry, "focused": True})
        elif value is None or (value == "" and option["type"] != kinds.STRING):
            if option.get("required") and typed.focused is None:
                typed.mistakes.append(f"{name}: this option is required.")
        else:
            filled += _one(option, value, typed)
    return filled


def _one(option: Json, value: Any, typed: _Typed) -> list[Json]:
    try:
        return [{"type": option["type"], "name": option["name"], "value": _value(option, value, typed)}]
    except ValueError as mistake:
        if typed.focused is None:
            typed.mistakes.append(f"{option['name']}: {mistake}")
        return []


def _value(option: Json, value: Any, typed: _Typed) -> Any:
    kind = option["type"]
    if kind == kinds.STRING:
        value = str(value)
        least, most = option.get("min_length", 0), option.get("max_length", kinds.MAX_STRING)
        if not least <= len(value) <= most:
            raise ValueError(f"must be between {least} and {most} characters.")
    elif kind in (kinds.INTEGER, kinds.NUMBER):
        value = _number(value, whole=kind == kinds.INTEGER)
        least, most = option.get("min_value", -(2**53)), option.get("max_value", 2**53)
        if not least <= value <= most:
            raise ValueError(f"must be between {least} and {most}.")
    elif kind == kinds.BOOLEAN:
        if not isinstance(value, bool):
            raise ValueError("must be true or false.")
    elif kind == kinds.ATTACHMENT:
        return _attachment(value, option.get("file_types"), typed)
    else:
        return _mentioned(option, str(value), typed)
    choices = option.get("choices")
    if choices and value not in [choice["value"] for choice in choices]:
        raise ValueError(f"choose one of {', '.join(str(choice['value']) for choice in choices)}.")
    return value


def _number(value: Any, *, whole: bool) -> int | float:
    try:
        if isinstance(value, bool) or (whole and isinstance(value, float) and not value.is_integer()):
            raise ValueError
        number = int(value) if whole else float(value)
    except (TypeError, ValueError):
        raise ValueError("must be a whole number." if whole else "must be a number.") from None
    if not math.isfinite(number):
        raise ValueError("must be a number.")
    return number


def _attachment(value: Any, types: list[str] | None, typed: _Typed) -> str:
    """Return the attachment id of the uploaded file of this number, as Discord's client sends it."""
    upload = check_upload(typed.files.get(number_of(value)), types, typed.most_bytes)
    attachment = attachment_of(upload, new_id=typed.world.new_id(), place_id=typed.command_id)
    typed.attached.append(attachment)
    seen = attachment_object(typed.world, attachment)
    typed.resolved.setdefault("attachments", {})[str(attachment.id)] = seen
    return str(attachment.id)


def _mentioned(option: Json, value: str, typed: _Typed) -> str:
    kind, types = option["type"], option.get("channel_types")
    world, number = typed.world, number_of(value)
    if kind in (kinds.USER, kinds.MENTIONABLE) and number in world.members:
        member = world.members[number]
        permissions = str(world.permissions(number, typed.channel))
        seen = {**member_object(world, member, with_user=False), "permissions": permissions}
        typed.resolved.setdefault("users", {})[value] = user_object(member.user)
        typed.resolved.setdefault("members", {})[value] = seen
    elif kind in (kinds.ROLE, kinds.MENTIONABLE) and number in world.roles:
        typed.resolved.setdefault("roles", {})[value] = role_object(world.roles[number])
    elif kind == kinds.CHANNEL and number in world.channels:
        channel = world.channels[number]
        if types and channel.type not in types:
            raise ValueError("choose a channel of a kind that the command takes.")
        seen = {"id": value, "name": channel.name, "type": channel.type, "permissions": "0"}
        typed.resolved.setdefault("channels", {})[value] = seen
    else:
        raise ValueError("choose somebody or something of this server.")
    return value
