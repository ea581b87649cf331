"""Caches of servers' moderation settings: policies by owner, compiled rules on words, and AutoMod rules.

`ServerCache` keeps what the store has, until its revision changes. `AutomodCache` keeps Discord's AutoMod
rules for FRESH_SECONDS.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import aiohttp
import discord

from bot.domain.quotas import Quota
from bot.moderation.automod import AutomodRule, read_rules
from bot.moderation.policy import Effective, Said, said_by
from bot.moderation.rules import Judge
from bot.process.threads import Threads
from bot.store import Store
from bot.store.moderation.policies import PolicyRow, PolicyScope
from bot.store.moderation.standing import Requester, ServerSays, Standing

log = logging.getLogger(__name__)

MOST_SERVERS = 5000
MOST_PARTS = 60_000  # policies, words and phrases; compiled, a word takes some 4 KiB
MOST_KEPT = 100  # results of `ReadyServer.ruled`, for one server

READ_SECONDS = 1.5  # that a request waits for Discord to send the AutoMod rules
FRESH_SECONDS = 900.0  # events report changes; a lost event has an effect for this long at most
RETRY_SECONDS = 60.0
MOST_AUTOMOD_SERVERS = 2000
MOST_INSTRUCTIONS = 1_000_000
"""Of all compiled AutoMod rules; one takes up to 270 bytes with the states that texts add to it.

1,000 keywords of 60 letters have 68,000, and 100 of 8 letters have 900.
"""
FAILURES = (
    *(discord.HTTPException, discord.RateLimited, aiohttp.ClientError, TimeoutError, OSError),
    # These come of an answer in an unexpected form. Painting continues with the rules read before.
    *(AttributeError, LookupError, TypeError, ValueError),
)


@dataclass(frozen=True, kw_only=True)
class Ruled:
    """The policies that apply to a person, the policy that they make together, and the person's quotas."""

    said: tuple[Said, ...]
    effective: Effective
    quotas: tuple[Quota, ...]


class ReadyServer:
    """The policies of a server by their owners, its rules on words, and whether its AutoMod rules apply."""

    def __init__(self, server: ServerSays) -> None:
        self.revision = server.revision
        self.judge = Judge(server.rules)
        self.automod = server.automod
        self._rows = {(row.scope, row.id): row for row in server.policies}
        self._ruled: OrderedDict[tuple[object, ...], Ruled] = OrderedDict()

    def __len__(self) -> int:
        """Return how many policies, words and phrases it has."""
        return len(self._rows) + len(self.judge)

    def ruled(
        self, requester: Requester, given: Hashable, decide: Callable[[tuple[Said, ...]], Ruled]
    ) -> Ruled:
        """Return the result of `decide` for the policies that hold for a person.

        The result is cached for all persons with the same policies and the same `given`, `decide`'s other
        inputs. Policies of a thread come first, then of its channel, of roles, of the server.
        """
        rows = list(self._holding(requester))
        key = (given, *((row.scope, row.id) for row in rows))
        found = self._ruled.get(key)
        if found is None:
            found = self._ruled[key] = decide(tuple(map(said_by, rows)))
            if len(self._ruled) > MOST_KEPT:
                self._ruled.popitem(last=False)
        else:
            self._ruled.move_to_end(key)
        return found

    def _holding(self, requester: Requester) -> Iterator[PolicyRow]:
        if not self._rows:
            return
        owners: Sequence[tuple[PolicyScope, int]] = [
            *((PolicyScope.CHANNEL, channel_id) for channel_id in requester.channel_ids),
            *((PolicyScope.ROLE, role_id) for role_id in sorted(requester.role_ids)),
            (PolicyScope.SERVER, requester.guild_id or 0),
        ]
        yield from (self._rows[owner] for owner in owners if owner in self._rows)


class ServerCache:
    """The settings of the servers where pictures were asked for lately.

    Every request reads the revision of its server, and settings kept under another revision are read again:
    a change applies to the next request at every front.
    """

    def __init__(self, *, most_servers: int = MOST_SERVERS, most_parts: int = MOST_PARTS) -> None:
        self._most_servers, self._most_parts = most_servers, most_parts
        self._servers: OrderedDict[int, ReadyServer] = OrderedDict()
        self._parts = 0

    async def look(self, store: Store, requester: Requester) -> tuple[Standing, ReadyServer]:
        """Return the standing of a person in a channel, and the settings of the server.

        Raises StoreUnavailable.
        """
        standing = await store.standings.of(requester)
        guild_id = requester.guild_id or 0
        kept = self._servers.get(guild_id)
        if kept is not None and kept.revision == standing.revision:
            self._servers.move_to_end(guild_id)
            return standing, kept
        # A server without a revision has no policies, rules or switch of AutoMod.
        said = ServerSays() if standing.revision is None else await store.standings.said_by(guild_id)
        kept = self._servers.get(guild_id)
        if kept is None or kept.revision != said.revision:  # no request read it meanwhile
            kept = ReadyServer(said)
            self._keep(guild_id, kept)
        return standing, kept

    def _keep(self, guild_id: int, ready: ReadyServer) -> None:
        self._forget(guild_id)
        self._servers[guild_id] = ready
        self._parts += len(ready)
        while len(self._servers) > 1 and (
            len(self._servers) > self._most_servers or self._parts > self._most_parts
        ):
            self._forget(next(iter(self._servers)))

    def _forget(self, guild_id: int) -> None:
        if (gone := self._servers.pop(guild_id, None)) is not None:
            self._parts -= len(gone)


@dataclass(kw_only=True)
class _Kept:
    """The AutoMod rules of one server as last read; `due`, in the clock's seconds, is the next reading."""

    rules: tuple[AutomodRule, ...] = ()
    due: float = 0.0
    size: int = 0
    failed: bool = False
    changes: int = 0
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)


class AutomodCache:
    """Discord's AutoMod rules of the servers that asked for pictures lately, read where the bot may.

    Of too many servers the one without a request for longest is forgotten. Where the rules of all are too
    large together, the largest ones are forgotten, so that
    no server pushes out smaller ones.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        most_servers: int = MOST_AUTOMOD_SERVERS,
        most_instructions: int = MOST_INSTRUCTIONS,
    ) -> None:
        self._clock = clock
        self._most_servers, self._most_instructions = most_servers, most_instructions
        self._servers: OrderedDict[int, _Kept] = OrderedDict()
        self._threads = Threads("automod", most=2, share=1)

    def __contains__(self, guild_id: int) -> bool:
        """Return whether the rules of a server are kept."""
        return guild_id in self._servers

    def expire(self, guild_id: int) -> None:
        """Let the rules of a server be read again with the next request; they hold until then."""
        if (kept := self._servers.get(guild_id)) is not None:
            kept.due, kept.changes = 0.0, kept.changes + 1

    def has_failed(self, guild_id: int) -> bool:
        """Return whether the last attempt to read the rules of a server has failed."""
        return guild_id in self._servers and self._servers[guild_id].failed

    async def rules_of(self, client: discord.Client, guild_id: int) -> tuple[AutomodRule, ...]:
        """Return the rules of a server; where Discord does not give them, those that were read before."""
        kept = self._servers.setdefault(guild_id, _Kept())
        self._servers.move_to_end(guild_id)
        while len(self._servers) > self._most_servers:
            self._servers.popitem(last=False)
        if kept.due <= self._clock():
            async with kept.reading:
                if kept.due <= self._clock():
                    await self._read(client, guild_id, kept)
        return kept.rules

    async def _read(self, client: discord.Client, guild_id: int, kept: _Kept) -> None:
        changes = kept.changes
        try:
            async with asyncio.timeout(READ_SECONDS):
                payload = await client.http.get_auto_moderation_rules(guild_id)
            read = partial(_compiled, cast("Any", payload))
            kept.rules = await self._threads.run_for([guild_id], read)
        except FAILURES as error:
            log.warning("the AutoMod rules of server %s could not be read: %r", guild_id, error)
            refused = isinstance(error, discord.Forbidden | discord.NotFound)
            kept.failed, kept.due = True, self._clock() + (FRESH_SECONDS if refused else RETRY_SECONDS)
            return
        kept.failed, kept.size = False, sum(rule.size for rule in kept.rules)
        if kept.changes == changes:
            kept.due = self._clock() + FRESH_SECONDS
        self._forget_largest()

    def _forget_largest(self) -> None:
        size = sum(kept.size for kept in self._servers.values())
        while size > self._most_instructions:
            largest = max(self._servers, key=lambda guild_id: self._servers[guild_id].size)
            size -= self._servers.pop(largest).size


def may_read(interaction: discord.Interaction[Any]) -> bool:
    """Return whether the bot is in the server with the right to manage it; else Discord is not asked."""
    return interaction.is_guild_integration() and interaction.app_permissions.manage_guild


def _compiled(payload: Iterable[Mapping[str, Any] | None] | None) -> tuple[AutomodRule, ...]:
    """Return the rules, compiled and measured, which takes seconds for the costliest patterns."""
    rules = read_rules(payload or ())
    for rule in rules:
        rule.prepare()
    return rules
