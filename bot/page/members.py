"""Who looks at the page: by the configuration, or by what Discord says of a person, remembered for a minute.

A role that somebody loses in Discord is lost here within FRESH_SECONDS, on pages that are open too. Where
Discord does not answer, nobody has a role by it.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from bot.config.page import PageConfig
from bot.domain.errors import DiscordUnavailable
from bot.page.discord_api import MANAGE_MESSAGES, MANAGE_SERVER, DiscordApi, Membership
from bot.page.guard import number_of
from bot.page.rights import Role, Viewer, role_in
from bot.store.rows.audit import OPERATOR

FRESH_SECONDS = 60.0
MOST_KEPT = 1000
MANAGES = MANAGE_SERVER | MANAGE_MESSAGES
MOST_LOOKED_THROUGH = 50
"""In how many of the bot's servers a person is looked for; in others the address must name the server."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Members:
    """Answers who a person is in a server; `clock` is monotonic, `now` tells the time since the epoch."""

    def __init__(
        self,
        api: DiscordApi,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._now = now
        self._servers = _Answers[None, dict[int, str]](lambda _: api.servers(), clock)
        self._server = _Answers(api.server, clock)
        self._member = _Answers[tuple[int, int], Membership | None](lambda key: api.member(*key), clock)

    async def viewer(self, user_id: int, guild_id: int) -> Viewer | None:
        """Return a person as a viewer of a server that has the bot; None for one who is not in it."""
        if guild_id not in await self._servers.of(None):
            return None  # Discord bans bots that ask too often about places of others
        server, member = await asyncio.gather(self._server.of(guild_id), self._member.of((guild_id, user_id)))
        if server is None or member is None or member.bot:
            return None
        now = self._now()
        rights = server.permissions(user_id, member, now=now)
        return Viewer(
            user_id=user_id,
            name=member.name,
            role=role_in(manages=rights & MANAGES == MANAGES, moderates=bool(rights & MANAGE_MESSAGES)),
            guild_id=guild_id,
            guild_name=server.name,
            owns=server.owner_id == user_id,
            channels=server.readable(user_id, member, now=now),
        )

    async def found(self, user_id: int) -> list[Viewer]:
        """Return a person in each server that has the bot, among the first MOST_LOOKED_THROUGH."""
        some = list(await self._servers.of(None))[:MOST_LOOKED_THROUGH]
        viewers = await asyncio.gather(*(self.viewer(user_id, guild_id) for guild_id in some))
        return [viewer for viewer in viewers if viewer is not None]


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


@dataclass(kw_only=True)
class _Answer(Generic[V]):
    lock: asyncio.Lock
    asked_at: float = -math.inf
    value: V | None = None
    failures: int = 0


class _Answers(Generic[K, V]):
    """Answers to questions of one kind, each at most FRESH_SECONDS old; equal questions are asked once.

    Callers that wait for a question share its failure: otherwise one wait would follow another.
    """

    def __init__(self, ask: Callable[[K], Awaitable[V]], clock: Callable[[], float]) -> None:
        self._ask = ask
        self._clock = clock
        self._answers: dict[K, _Answer[V]] = {}

    async def of(self, key: K) -> V:
        answer = self._answers.pop(key, None) or _Answer[V](lock=asyncio.Lock())
        self._answers[key] = answer  # the last one that was used is at the end
        if len(self._answers) > MOST_KEPT:
            del self._answers[next(iter(self._answers))]
        failures = answer.failures
        async with answer.lock:
            if answer.failures != failures:
                raise DiscordUnavailable("Discord does not answer.")
            if self._clock() - answer.asked_at >= FRESH_SECONDS:
                asked_at = self._clock()  # what has changed since then may be missing
                try:
                    answer.value = await self._ask(key)
                except DiscordUnavailable:
                    answer.failures += 1
                    raise
                answer.asked_at = asked_at
            return cast("V", answer.value)
