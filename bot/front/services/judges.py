"""Judges of people's texts: the threads in which texts are judged, and Discord's AutoMod rules.

What one text costs depends on the rules, patterns, styles and lists of a server, which its moderators choose.
So a text has a limit of processor time, and a server a share of the threads.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, cast

import aiohttp
import discord

from bot.domain.errors import UserMistake
from bot.moderation.automod import AutomodRule, read_rules
from bot.moderation.limits import Sender
from bot.process.threads import Check, Deadline, Threads, TooLong

log = logging.getLogger(__name__)

T = TypeVar("T")
AT_ONCE, SHARE = 2, 1  # judging threads, and those that one server may have at a time
SECONDS = 0.25  # of processor time, for one request; a server with many rules needs 0.1 s on a slow machine
MOST_SERVERS = 1000  # whose slow rules are remembered
MOST_RULES = 10

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


class Judging:
    """The threads of one front. A person has at most one request of the server's, or in direct messages."""

    def __init__(self, *, seconds: float = SECONDS, clock: Callable[[], float] = time.thread_time) -> None:
        self._seconds, self._clock = seconds, clock
        self._threads = Threads("judging", most=AT_ONCE, share=SHARE)
        self._preparing = Threads("rules", most=AT_ONCE, share=SHARE)
        self._slow: OrderedDict[int, dict[str, None]] = OrderedDict()

    async def prepare(self, sender: Sender, work: Callable[[], None]) -> None:
        """Run work that many requests share, such as compiling rules; it has no deadline."""
        await self._preparing.run_for(_owners(sender), work)

    async def run(self, sender: Sender, work: Callable[[Check], T], *, times: int = 1) -> T:
        """Return or raise what `work` returns or raises, within `times` the usual limit.

        `work` calls its argument before each piece of work, with the name of the rule or nothing. Raises
        UserMistake `judging_rule` or `judging_long` where the limit is over.
        """
        limited = partial(self._limited, work, self._seconds * times)
        try:
            return await self._threads.run_for(_owners(sender), limited)
        except TooLong as error:
            log.warning(
                "judging a text in server %s took more than %.2f s, mostly for the rule %r",
                *(sender.guild_id, self._seconds * times, error.piece),
            )
            if not error.piece:
                raise UserMistake("judging_long") from None
            self._remember(sender.guild_id or 0, error.piece)
            raise UserMistake("judging_rule", rule=error.piece) from None

    def slow_rules(self, guild_id: int) -> tuple[str, ...]:
        """Return the rules of a server that took too long for a text since the start, at most MOST_RULES."""
        return tuple(self._slow.get(guild_id, ()))

    def _limited(self, work: Callable[[Check], T], seconds: float) -> T:
        return work(Deadline(seconds, self._clock))

    def _remember(self, guild_id: int, rule: str) -> None:
        rules = self._slow.setdefault(guild_id, {})
        self._slow.move_to_end(guild_id)
        if len(rules) < MOST_RULES:
            rules[rule] = None
        if len(self._slow) > MOST_SERVERS:
            self._slow.popitem(last=False)


def _owners(sender: Sender) -> tuple[Hashable, ...]:
    """Return the person there, and the server: a person's own requests wait for each other first."""
    return (sender,) if sender.guild_id is None else (sender, sender.guild_id)


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


def _compiled(payload: Iterable[Mapping[str, Any] | None] | None) -> tuple[AutomodRule, ...]:
    """Return the rules, compiled and measured, which takes seconds for the costliest patterns."""
    rules = read_rules(payload or ())
    for rule in rules:
        rule.prepare()
    return rules
