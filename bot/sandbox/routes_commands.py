"""REST operations on application commands, global and of one server."""

from __future__ import annotations

from typing import Any

from bot.sandbox.command_rules import COMMAND_FIELDS
from bot.sandbox.commands import GLOBAL
from bot.sandbox.core import Core
from bot.sandbox.rates import COMMANDS
from bot.sandbox.rejections import Json, Rejection, missing_access
from bot.sandbox.rest import NO_CONTENT, Call, Handler, Operation, Reply

SCOPES = (
    "/applications/{application_id}/commands",
    "/applications/{application_id}/guilds/{guild_id}/commands",
)


class CommandRoutes:
    """Reads and changes the bot's commands."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def operations(self) -> list[Operation]:
        """Return the operations of this part."""
        everything: list[tuple[str, str, Handler, dict[str, str]]] = [
            ("GET", "", self._all, {"with_localizations": "bool"}),
            ("PUT", "", self._replace, {}),
            ("POST", "", self._post, {}),
            ("GET", "/{command_id}", self._one, {}),
            ("PATCH", "/{command_id}", self._patch, {}),
            ("DELETE", "/{command_id}", self._delete, {}),
        ]
        return [
            Operation(
                method=method,
                route=scope + route,
                handler=handler,
                query=query,
                fields=COMMAND_FIELDS if method == "PATCH" else None,
                limit=COMMANDS,
            )
            for scope in SCOPES
            for method, route, handler, query in everything
        ]

    def _scope(self, call: Call) -> str:
        world = self._core.world
        if call.params["application_id"] != str(world.application_id):
            raise Rejection(403, 20012, "You are not authorized to perform this action on this application")
        guild = call.params.get("guild_id")
        if guild is not None and guild != str(world.guild_id):
            raise missing_access()
        return guild or GLOBAL

    def _all(self, call: Call) -> Reply:
        commands = self._core.commands.all(self._scope(call))
        if not call.asks("with_localizations"):
            commands = [_without_localizations(command) for command in commands]
        return Reply(body=commands)

    def _replace(self, call: Call) -> Reply:
        return Reply(body=self._core.commands.replace_all(self._scope(call), call.body.json))

    def _post(self, call: Call) -> Reply:
        command, new = self._core.commands.put(self._scope(call), call.json)
        return Reply(body=command, status=201 if new else 200)

    def _one(self, call: Call) -> Reply:
        return Reply(body=self._core.commands.get(self._scope(call), call.params["command_id"]))

    def _patch(self, call: Call) -> Reply:
        return Reply(body=self._core.commands.patch(self._scope(call), call.params["command_id"], call.json))

    def _delete(self, call: Call) -> Reply:
        self._core.commands.delete(self._scope(call), call.params["command_id"])
        return NO_CONTENT


def _without_localizations(thing: Any) -> Any:
    if isinstance(thing, list):
        return [_without_localizations(each) for each in thing]
    if not isinstance(thing, dict):
        return thing
    kept: Json = {key: value for key, value in thing.items() if not key.endswith("_localizations")}
    return {key: _without_localizations(value) for key, value in kept.items()}
