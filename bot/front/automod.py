"""Discord's AutoMod rules of servers: read where the bot may, kept for some time, applied to requests."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import aiohttp
import discord

from bot.moderation.automod import AutomodRule, AutomodVerdict, judged, read_rules
from bot.threads import Threads

log = logging.getLogger(__name__)

READ_SECONDS = 1.5  # for which a request waits for the first answer of Discord
FRESH_SECONDS = 900.0  # Discord tells of changes, and a lost event is made up for by then
RETRY_SECONDS = 60.0
MOST_SERVERS = 2000
FAILURES = (
    *(discord.HTTPException, discord.RateLimited, aiohttp.ClientError, TimeoutError, OSError),
    # Of an answer in another form: painting goes on all the same.
    *(AttributeError, LookupError, TypeError, ValueError),
)


@dataclass(kw_only=True)
class Kept:
    """The rules of one server as they were last read; `due`, in the clock's seconds, is the next reading."""

    rules: tuple[AutomodRule, ...] = ()
    due: float = 0.0
    failed: bool = False
    changes: int = 0
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)


class AutomodCache:
    """The rules of the servers that asked for pictures lately."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._servers: OrderedDict[int, Kept] = OrderedDict()
        self._threads = Threads("automod", most=1)

    def expire(self, guild_id: int) -> None:
        """Let the rules of a server be read again with the next request; they hold until then."""
        if (kept := self._servers.get(guild_id)) is not None:
            kept.due, kept.changes = 0.0, kept.changes + 1

    def has_failed(self, guild_id: int) -> bool:
        """Return whether the last attempt to read the rules of a server has failed."""
        return guild_id in self._servers and self._servers[guild_id].failed

    async def verdict(
        self, interaction: discord.Interaction[Any], texts: Sequence[str]
    ) -> AutomodVerdict | None:
        """Return the rule that refuses one of the texts; None where none does or none may be read."""
        if not may_read(interaction):
            return None
        rules = await self.rules_of(interaction.client, interaction.guild_id or 0)
        if not rules:
            return None
        roles = [role.id for role in getattr(interaction.user, "roles", ())]
        return judged(texts, rules, roles=roles, places=_places(interaction))

    async def rules_of(self, client: discord.Client, guild_id: int) -> tuple[AutomodRule, ...]:
        """Return the rules of a server; where Discord does not give them, those that were read before."""
        kept = self._servers.setdefault(guild_id, Kept())
        self._servers.move_to_end(guild_id)
        while len(self._servers) > MOST_SERVERS:
            self._servers.popitem(last=False)
        if kept.due <= self._clock():
            async with kept.reading:
                if kept.due <= self._clock():
                    await self._read(client, guild_id, kept)
        return kept.rules

    async def _read(self, client: discord.Client, guild_id: int, kept: Kept) -> None:
        changes = kept.changes
        try:
            async with asyncio.timeout(READ_SECONDS):
                payload = await client.http.get_auto_moderation_rules(guild_id)
            kept.rules = await self._threads.run(_ready, cast("Any", payload))
        except FAILURES as error:
            log.warning("the AutoMod rules of server %s could not be read: %r", guild_id, error)
            refused = isinstance(error, discord.Forbidden | discord.NotFound)
            kept.failed, kept.due = True, self._clock() + (FRESH_SECONDS if refused else RETRY_SECONDS)
            return
        kept.failed = False
        if kept.changes == changes:
            kept.due = self._clock() + FRESH_SECONDS


def may_read(interaction: discord.Interaction[Any]) -> bool:
    """Return whether the bot is in the server with the right to manage it; else Discord is not asked."""
    return interaction.is_guild_integration() and interaction.app_permissions.manage_guild


def _places(interaction: discord.Interaction[Any]) -> Iterator[int]:
    """Yield the ids of the channel, of the channel of a thread, and of their category."""
    here = interaction.channel
    for found in (
        interaction.channel_id,
        getattr(here, "parent_id", None),
        getattr(here, "category_id", None),
    ):
        if found is not None:
            yield found


def _ready(payload: Iterable[Mapping[str, Any] | None] | None) -> tuple[AutomodRule, ...]:
    """Return the rules, compiled, which takes milliseconds for long lists."""
    rules = read_rules(payload or ())
    for rule in rules:
        rule.prepare()
    return rules
