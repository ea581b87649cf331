"""Message commands: which ones Discord's client offers, and the data that it sends; pure."""

from __future__ import annotations

from collections.abc import Iterable

from bot.sandbox.command_options import ClientRefusal
from bot.sandbox.command_rules import MESSAGE_COMMAND
from bot.sandbox.objects import message_object
from bot.sandbox.rejections import Json
from bot.sandbox.state import Message, World


def find_menu(commands: Iterable[Json], name: str) -> Json:
    """Return the message command of this name; raises `ClientRefusal`."""
    offered = [command for command in commands if command["type"] == MESSAGE_COMMAND]
    for command in offered:
        if command["name"] == name:
            return command
    there = ", ".join(f"“{command['name']}”" for command in offered) or "none"
    raise ClientRefusal([f"There is no “{name}” in the menu of a message; there are: {there}."])


def menu_data(world: World, command: Json, message: Message) -> Json:
    """Return the data of the interaction, with the whole message: intents do not apply here."""
    seen = message_object(world, message, whole=True)
    data: Json = {
        "id": command["id"],
        "name": command["name"],
        "type": MESSAGE_COMMAND,
        "target_id": str(message.id),
        "resolved": {"messages": {str(message.id): seen}},
    }
    if "guild_id" in command:
        data["guild_id"] = command["guild_id"]
    return data
