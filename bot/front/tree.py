"""The command tree: one place where errors become answers, and where commands are registered."""

from __future__ import annotations

import logging
from typing import Any

import discord
from discord import app_commands
from discord.http import Route

from bot.front.answers import report
from bot.front.parts import Interaction, parts_of
from bot.front.registration import unchanged

log = logging.getLogger(__name__)


class Tree(app_commands.CommandTree[Any]):
    """All commands of the bot."""

    async def _call(self, interaction: Interaction) -> None:
        # Around the command and its on_error: a stop waits for both, and discord.py keeps no list of them.
        with parts_of(interaction).underway.one():
            await super()._call(interaction)

    async def on_error(self, interaction: Interaction, error: app_commands.AppCommandError, /) -> None:
        """Answer whatever a command raised."""
        cause = error.original if isinstance(error, app_commands.CommandInvokeError) else error
        await report(interaction, cause)

    async def register(self, guild: discord.Object | None = None) -> bool:
        """Register the commands everywhere, or in one server, unless Discord has them already."""
        if unchanged(await self._defined(guild), await self._registered(guild)):
            log.info("the commands are registered already")
            return False
        names = [command.name for command in await self.sync(guild=guild)]
        where = f"in server {guild.id}" if guild else "everywhere"
        log.info("registered %s: %s", where, ", ".join(names) or "no commands")
        return True

    async def _defined(self, guild: discord.Object | None) -> list[dict[str, Any]]:
        translator = self.translator
        return [
            await command.get_translated_payload(self, translator) if translator else command.to_dict(self)
            for command in self.get_commands(guild=guild)
        ]

    async def _registered(self, guild: discord.Object | None) -> list[dict[str, Any]]:
        """As Discord has them, with their localizations, which discord.py's own call leaves out."""
        base = "/applications/{application_id}" + ("/guilds/{guild_id}/commands" if guild else "/commands")
        route = Route(
            "GET",
            base,
            application_id=self.client.application_id,
            guild_id=guild.id if guild else None,
        )
        found: list[dict[str, Any]] = await self._http.request(route, params={"with_localizations": "true"})
        return found
