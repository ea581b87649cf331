"""Finds out who looks at the page: by the configuration, or by what the person is in a server."""

from __future__ import annotations

from collections.abc import Mapping

from bot.config.page import PageConfig
from bot.page.members import Members
from bot.page.queue import number_of
from bot.page.rights import Role, Viewer
from bot.store.rows.audit import OPERATOR


class Viewers:
    """Answers who a person is; without `members` only persons of the configuration are anybody."""

    def __init__(self, config: PageConfig, members: Members | None) -> None:
        self._config = config
        self._members = members

    async def of(self, user_id: int, query: Mapping[str, str], kept: str) -> Viewer | None:
        """Return the person as a viewer of the server that the address names; None for nobody.

        Without one it is the `kept` server, or the first server that the person is in. Raises
        DiscordUnavailable.
        """
        if user_id == OPERATOR or user_id in self._config.operators:
            return Viewer(user_id=user_id, role=Role.OPERATOR)
        viewer = await self._in_server(user_id, query.get("server", ""), kept)
        if user_id in self._config.readers and (viewer is None or viewer.role is Role.MEMBER):
            return Viewer(user_id=user_id, role=Role.READER, name="" if viewer is None else viewer.name)
        return viewer

    async def servers(self, user_id: int) -> list[Viewer]:
        """Return the person in each server that has the bot."""
        return [] if self._members is None else await self._members.found(user_id)

    async def _in_server(self, user_id: int, named: str, kept: str) -> Viewer | None:
        if self._members is None:
            return None
        if named:
            return await self._members.viewer(user_id, number_of(named) or 0)
        viewer = await self._members.viewer(user_id, number_of(kept) or 0)
        return viewer or next(iter(await self._members.found(user_id)), None)
