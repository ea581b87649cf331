"""The command tree: how commands are made and registered, and where their errors become answers."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import discord
from discord import app_commands
from discord.app_commands import AppCommandContext, AppInstallationType, locale_str
from discord.http import Route

from bot.domain.errors import CommandsRefused
from bot.front.answers.answers import answer
from bot.front.gateway.registration import refusal, unchanged
from bot.front.services.request import Interaction, Request
from bot.front.uploads.messages import FILE_TYPES

log = logging.getLogger(__name__)

INVALID_FORM = 50035  # of Discord's codes
MAX_MENUS = 15  # of each type

Command = app_commands.Command[Any, ..., None]
Group = app_commands.Group
MessageMenu = app_commands.ContextMenu
Moderating = TypeVar(
    "Moderating",
    bound=app_commands.Command[Any, ..., Any] | app_commands.Group | app_commands.ContextMenu,
)
Autocomplete = Callable[[Request, str], Coroutine[Any, Any, list[app_commands.Choice[str]]]]


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option of a command; `kind` is a type as discord.py reads it, such as `Range[int, 1, 9]`.

    The names of choices are proper names, or a `locale_str` marked as `words`. `file_types` are those of a
    file: up to 10 of "image", "video", "audio" and extensions with their dot; without any it is any file.
    """

    name: str
    description: locale_str
    kind: Any
    required: bool = False
    choices: Sequence[tuple[str | locale_str, str]] = ()
    autocomplete: Autocomplete | None = None
    file_types: Sequence[str] = ()


def make_command(
    *, name: str, description: locale_str, run: Callable[..., Awaitable[None]], options: Sequence[Option] = ()
) -> Command:
    """Return a command that calls `run(request, **given)` with the options that the person filled in."""

    async def callback(interaction: Interaction, **values: Any) -> None:
        given = {key: value for key, value in values.items() if value is not None}
        request = Request.of(interaction)
        await answer(request, partial(run, request, **given))

    callback.__signature__ = _signature(options)  # type: ignore[attr-defined]
    if options:
        app_commands.describe(**{option.name: option.description for option in options})(callback)
    for option in options:
        if option.choices:
            found = [app_commands.Choice(name=shown, value=value) for shown, value in option.choices]
            app_commands.choices(**{option.name: found})(callback)
        if option.autocomplete:
            app_commands.autocomplete(**{option.name: _suggesting(option.autocomplete)})(callback)
    types = {option.name: list(option.file_types) for option in options if option.file_types}
    return FileCommand(name=name, description=description, callback=callback, extras={FILE_TYPES: types})


def _suggesting(
    suggest: Autocomplete,
) -> Callable[[Interaction, str], Coroutine[Any, Any, list[app_commands.Choice[str]]]]:
    async def suggested(interaction: Interaction, typed: str) -> list[app_commands.Choice[str]]:
        return await suggest(Request.of(interaction), typed)

    return suggested


class FileCommand(app_commands.Command[Any, ..., None]):
    """A command that tells Discord the types of its files, which discord.py 2.7 cannot.

    Source of the field: discord/discord-api-docs#8506.
    """

    def to_dict(self, tree: app_commands.CommandTree[Any]) -> dict[str, Any]:
        """Return Discord's form of the command."""
        return self._typed(super().to_dict(tree))

    async def get_translated_payload(
        self, tree: app_commands.CommandTree[Any], translator: app_commands.Translator
    ) -> dict[str, Any]:
        """Return Discord's form of the command, with its names and descriptions in every language."""
        return self._typed(await super().get_translated_payload(tree, translator))

    def _typed(self, payload: dict[str, Any]) -> dict[str, Any]:
        for option in payload["options"]:
            if types := self.extras[FILE_TYPES].get(option["name"]):
                option[FILE_TYPES] = types
        return payload


def make_menu(*, name: locale_str, run: Callable[[Request, discord.Message], Awaitable[None]]) -> MessageMenu:
    """Return a command in the menu of every message, which calls `run(request, message)`."""

    async def callback(interaction: Interaction, message: discord.Message) -> None:
        request = Request.of(interaction)
        await answer(request, partial(run, request, message))

    return app_commands.ContextMenu(name=name, callback=callback)


def make_group(*, name: str, description: locale_str, commands: Sequence[Command]) -> Group:
    """Return a command with these subcommands."""
    group = app_commands.Group(name=name, description=description)
    for command in commands:
        group.add_command(command)
    return group


def for_moderators(command: Moderating) -> Moderating:
    """Offer a command in servers that have the bot, to members who may manage messages there."""
    command.default_permissions = discord.Permissions(manage_messages=True)
    command.guild_only = True
    command.allowed_contexts = AppCommandContext(guild=True, dm_channel=False, private_channel=False)
    command.allowed_installs = AppInstallationType(guild=True, user=False)
    return command


def _signature(options: Sequence[Option]) -> inspect.Signature:
    """Return the signature from which discord.py reads the options."""
    interaction = inspect.Parameter("interaction", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return inspect.Signature(
        [interaction]
        + [
            inspect.Parameter(
                option.name,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=option.kind if option.required else option.kind | None,
                default=inspect.Parameter.empty if option.required else None,
            )
            for option in options
        ]
    )


class Tree(app_commands.CommandTree[Any]):
    """All commands of the bot."""

    def add_command(self, command: Any, /, **how: Any) -> None:
        """Add a command; there may be 15 menus of each type, as Discord allows since March 2026.

        `how` are the other arguments of discord.py's method. Raises CommandAlreadyRegistered, and
        CommandLimitReached for one too many.
        """
        # discord.py 2.7 refuses the sixth menu: each menu is added to an empty dictionary of menus instead.
        menus, self._context_menus = self._context_menus, {}
        try:
            super().add_command(command, **how)
        finally:
            added, self._context_menus = self._context_menus, menus
        for name, guild_id, kind in added:
            if (name, guild_id, kind) in menus and not how.get("override"):
                raise app_commands.CommandAlreadyRegistered(name, guild_id)
            others = [key for key in menus if key[1:] == (guild_id, kind) and key[0] != name]
            if len(others) >= MAX_MENUS:
                raise app_commands.CommandLimitReached(
                    guild_id, limit=MAX_MENUS, type=discord.AppCommandType(kind)
                )
        menus.update(added)

    async def _call(self, interaction: Interaction) -> None:
        if interaction.type is not discord.InteractionType.autocomplete:
            await super()._call(interaction)
            return
        request = Request.of(interaction)
        if request.services.pace.may_suggest(request.sender):  # else Discord shows that there are none
            with request.services.open_interactions.one():
                await super()._call(interaction)

    async def on_error(self, interaction: Interaction, error: app_commands.AppCommandError, /) -> None:
        """Answer the error of a command that discord.py could not call, such as one of an older version."""

        async def fail() -> None:
            raise error

        await answer(Request.of(interaction), fail)

    async def register(self, guild: discord.Object | None = None) -> bool:
        """Register the commands everywhere, or in one server, unless Discord has them already.

        Raises CommandsRefused, which names the command and the option.
        """
        defined = await self._defined(guild)
        if unchanged(defined, await self._registered(guild)):
            log.info("the commands are registered already")
            return False
        try:
            written = await self._write(defined, guild)
        except discord.HTTPException as error:
            if error.code == INVALID_FORM:
                errors = error._errors or {"_errors": [{"message": error.text}]}
                raise CommandsRefused(refusal(errors, defined)) from None
            raise
        names = [command["name"] for command in written]
        where = f"in server {guild.id}" if guild else "everywhere"
        log.info("registered %s: %s", where, ", ".join(names) or "no commands")
        return True

    async def compare(self, guild: discord.Object | None = None) -> tuple[int, bool]:
        """Return how many commands Discord has, everywhere or in one server, and whether they are these."""
        registered = await self._registered(guild)
        return len(registered), unchanged(await self._defined(guild), registered)

    async def _defined(self, guild: discord.Object | None) -> list[dict[str, Any]]:
        translator = self.translator
        return [
            await command.get_translated_payload(self, translator) if translator else command.to_dict(self)
            for command in self.get_commands(guild=guild)
        ]

    async def _write(
        self, defined: list[dict[str, Any]], guild: discord.Object | None
    ) -> Sequence[Mapping[str, Any]]:
        """Register the commands, and return them; discord.py's `sync` would translate all of them again."""
        application = self.client.application_id
        assert application is not None, "the bot has logged in"
        if guild is None:
            return await self._http.bulk_upsert_global_commands(application, payload=defined)
        return await self._http.bulk_upsert_guild_commands(application, guild.id, payload=defined)

    async def _registered(self, guild: discord.Object | None) -> list[dict[str, Any]]:
        """Return the registered commands with their localizations, which discord.py's own call leaves out."""
        base = "/applications/{application_id}" + ("/guilds/{guild_id}/commands" if guild else "/commands")
        route = Route(
            "GET",
            base,
            application_id=self.client.application_id,
            guild_id=guild.id if guild else None,
        )
        found: list[dict[str, Any]] = await self._http.request(route, params={"with_localizations": "true"})
        return found
