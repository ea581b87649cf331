"""The registered application commands: global ones, and those of the server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bot.sandbox.command_rules import CHAT_INPUT, MAX_COMMANDS, check_commands
from bot.sandbox.log import Log
from bot.sandbox.rejections import Json, Rejection, unknown
from bot.sandbox.state import DIRECT_MESSAGE, GROUP_DM, Event, World, number_of

DAY_SECONDS = 24 * 3600.0
CREATIONS_PER_DAY = 200
GLOBAL = "global"
IN_SERVER, WITH_BOT, IN_PRIVATE = range(3)  # contexts
CONTEXTS = {DIRECT_MESSAGE: WITH_BOT, GROUP_DM: IN_PRIVATE}
BY_SERVER, BY_MEMBER = range(2)  # who installed the bot


class Commands:
    """The registered commands by scope (a server's id, or "global")."""

    def __init__(self, world: World, log: Log) -> None:
        self._world = world
        self._log = log
        self._scopes: dict[str, dict[int, Json]] = {}
        self._creations: dict[str, list[float]] = {}

    def all(self, scope: str) -> list[Json]:
        """Return the commands of one scope."""
        return list(self._scopes.get(scope, {}).values())

    @property
    def for_accounts(self) -> bool:
        """Whether members can install the bot in their accounts."""
        return any(BY_MEMBER in command["integration_types"] for command in self.all(GLOBAL))

    def offered(self, channel_type: int, *, installed: bool = False) -> Iterator[Json]:
        """Yield the commands that a member can use in a channel; `installed`: in the account too."""
        context = CONTEXTS.get(channel_type, IN_SERVER)
        here = context == WITH_BOT or (context == IN_SERVER and not self._world.kicked)
        if context == IN_SERVER and here:
            yield from self.all(str(self._world.guild_id))
        for command in self.all(GLOBAL):
            kinds = command["integration_types"]
            if not ((here and BY_SERVER in kinds) or (installed and BY_MEMBER in kinds)):
                continue
            if command.get("contexts") is None or context in command["contexts"]:
                yield command

    def get(self, scope: str, command_id: str) -> Json:
        """Return one command; raises 10063."""
        command = self._scopes.get(scope, {}).get(number_of(command_id))
        if command is None:
            raise unknown("application command", 10063)
        return command

    def replace_all(self, scope: str, given: Any) -> list[Json]:
        """Replace all commands of a scope; a command with the same name keeps its id."""
        commands = [each for each in given or [] if isinstance(each, dict)]
        self._note(check_commands(commands) + _out_of_place(scope, commands))
        old = {self._key(command): command for command in self.all(scope)}
        created = sum(self._key(command) not in old for command in commands)
        self._count_creations(scope, created)
        fresh = [self._registered(scope, command, old.get(self._key(command))) for command in commands]
        self._scopes[scope] = {int(command["id"]): command for command in fresh}
        self._changed()
        return fresh

    def put(self, scope: str, given: Json) -> tuple[Json, bool]:
        """Create one command, or replace the command of the same name; return it and whether it is new."""
        old = {self._key(command): command for command in self.all(scope)}
        before = old.get(self._key(given))
        others = [command for command in old.values() if command is not before]
        self._note(check_commands([given]) + _out_of_place(scope, [given]))
        self._check_room(others, given)
        self._count_creations(scope, 0 if before else 1)
        command = self._registered(scope, given, before)
        self._scopes.setdefault(scope, {})[int(command["id"])] = command
        self._changed()
        return command, before is None

    def patch(self, scope: str, command_id: str, given: Json) -> Json:
        """Change some fields of one command."""
        before = self.get(scope, command_id)
        self._note([f"unknown field {name}" for name in given if name in ("id", "type")])
        self._note(_out_of_place(scope, [given]))
        body = {
            key: value
            for key, value in before.items()
            if key not in ("application_id", "version", "guild_id")
        }
        merged = {**body, **given}
        self._note(check_commands([merged]))
        command = self._registered(scope, merged, before)
        self._scopes[scope][int(command_id)] = command
        self._changed()
        return command

    def delete(self, scope: str, command_id: str) -> None:
        """Delete one command."""
        self.get(scope, command_id)
        del self._scopes[scope][int(command_id)]
        self._changed()

    @staticmethod
    def _key(command: Json) -> tuple[int, str]:
        return command.get("type") or CHAT_INPUT, str(command.get("name"))

    @staticmethod
    def _check_room(others: list[Json], given: Json) -> None:
        kind = given.get("type") or CHAT_INPUT
        most = MAX_COMMANDS.get(kind, 0)
        if most and sum(command["type"] == kind for command in others) >= most:
            raise Rejection(400, 30032, f"Maximum number of application commands reached ({most})")

    def _count_creations(self, scope: str, created: int) -> None:
        now = self._world.clock()
        recent = [at for at in self._creations.get(scope, []) if at > now - DAY_SECONDS]
        if len(recent) + created > CREATIONS_PER_DAY:
            message = (
                f"Max number of daily application command creates has been reached ({CREATIONS_PER_DAY})"
            )
            raise Rejection(400, 30034, message)
        self._creations[scope] = recent + [now] * created

    def _registered(self, scope: str, given: Json, before: Json | None) -> Json:
        permissions = given.get("default_member_permissions")
        command: Json = {
            "id": before["id"] if before else str(self._world.new_id()),
            "application_id": str(self._world.application_id),
            "type": given.get("type") or CHAT_INPUT,
            "name": given["name"],
            "name_localizations": given.get("name_localizations"),
            "description": given.get("description") or "",
            "description_localizations": given.get("description_localizations"),
            "default_member_permissions": str(permissions) if permissions is not None else None,
            "nsfw": bool(given.get("nsfw", False)),
        }
        if given.get("options"):
            command["options"] = [_option(option) for option in given["options"]]
        if scope == GLOBAL:
            command["dm_permission"] = bool(given.get("dm_permission", True))
            command["contexts"] = given.get("contexts")
            command["integration_types"] = given.get("integration_types") or [0]
        else:
            command["guild_id"] = scope
        same = before is not None and command == {k: v for k, v in before.items() if k != "version"}
        command["version"] = before["version"] if before and same else str(self._world.new_id())
        return command

    def _note(self, oddities: list[str]) -> None:
        for oddity in oddities:
            self._log.violation(f"application command: {oddity}")

    def _changed(self) -> None:
        self._world.emit(Event(type="COMMANDS_UPDATE", data=None))


def _out_of_place(scope: str, commands: list[Json]) -> list[str]:
    """Return a sentence for each field that only global commands have, in commands of one server.

    These are contexts and integration types. discord.py sends null for both, and `dm_permission`, with every
    command; Discord ignores that.
    """
    fields = ("contexts", "integration_types") if scope != GLOBAL else ()
    return [
        f"{name} in a command of one server"
        for command in commands
        for name in fields
        if command.get(name) is not None
    ]


def _option(given: Json) -> Json:
    """Return an option as in Discord's answers: without null fields."""
    option = {key: value for key, value in given.items() if value is not None}
    if "options" in option:
        option["options"] = [_option(each) for each in option["options"]]
    if "choices" in option:
        option["choices"] = [
            {k: v for k, v in choice.items() if v is not None} for choice in option["choices"]
        ]
        if not option["choices"]:
            del option["choices"]
    return option
