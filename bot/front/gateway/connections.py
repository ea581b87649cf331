"""The connections of a client's shards to Discord's gateway, and the session starts that Discord allows."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

import aiohttp
import discord

from bot.telemetry.metrics import WELL, FrontMetrics

log = logging.getLogger(__name__)

IDENTIFY_SECONDS = 5.0  # between two identifications of the shards that share a rate limit
LOOK_SECONDS = 600.0  # after which Discord is asked again whether sessions may be started
RETRY_SECONDS, PAUSE_SECONDS = 5.0, 30.0
UNANSWERED = (discord.GatewayNotFound, discord.RateLimited, aiohttp.ClientError, OSError)


class GatewayConnections:
    """Counts lost and restored connections, and knows which shards are connected."""

    def __init__(self, metrics: FrontMetrics) -> None:
        self._metrics = metrics
        self._shards: dict[int, bool] = {}  # whether each shard is connected

    def note(self, event: str, shard: int) -> None:
        """Count a lost or restored connection."""
        self._shards[shard] = event != "disconnected"
        self._metrics.gateway_events.labels(event).inc()

    def health(self) -> str:
        """Return "well", or why the gateway is not connected."""
        lost = [str(shard) for shard, connected in sorted(self._shards.items()) if not connected]
        if lost:
            return f"shard {', '.join(lost)} is not connected to Discord's gateway"
        return WELL if self._shards else "not connected to Discord's gateway"


class SessionStarts:
    """Lets shards identify at the gateway only while Discord allows it.

    Discord resets the token of a bot that starts more sessions than the thousand of a day. `max_concurrency`
    is how many shards may identify at the same time: shards of the same remainder share a rate limit.
    """

    def __init__(self, http: discord.http.HTTPClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._http = http
        self._clock = clock
        self._waits_until: float | None = None
        self._at_once = 1
        self._identified: dict[int, float] = {}  # when a shard of each remainder identified last

    def health(self) -> str:
        """Return "well", or for how long no session may be started."""
        if self._waits_until is None:
            return WELL
        left = max(0.0, self._waits_until - self._clock())
        return f"no session start is left today: the front connects in {_told(left)}"

    async def wait(self, shards: int) -> None:
        """Wait until so many sessions may be started. Discord is asked again where it does not answer."""
        while True:
            try:
                left = await self._seconds(shards)
            except UNANSWERED as error:
                log.warning("the session starts that are left cannot be asked for: %s", error)
                left = RETRY_SECONDS
            if not left:
                return
            await asyncio.sleep(min(left, LOOK_SECONDS))

    async def take(self, shard: int) -> None:
        """Wait for the turn of one shard; without a start raise GatewayNotFound, to be retried."""
        try:
            left = await self._seconds(1)
        except discord.RateLimited as error:
            raise discord.GatewayNotFound from error
        if left:
            await asyncio.sleep(min(left, PAUSE_SECONDS))  # discord.py gives an attempt at least a minute
            raise discord.GatewayNotFound
        key = shard % self._at_once
        last = self._identified.get(key, float("-inf"))
        self._identified[key] = max(self._clock(), last + IDENTIFY_SECONDS)
        await asyncio.sleep(self._identified[key] - self._clock())

    async def _seconds(self, shards: int) -> float:
        """Return the seconds until so many sessions may be started; 0 if they may be started now."""
        _, _, limit = await self._http.get_bot_gateway()
        self._at_once = max(1, limit["max_concurrency"])
        if limit["remaining"] >= min(shards, limit["total"]):
            self._waits_until = None
            return 0.0
        left = max(limit["reset_after"] / 1000, RETRY_SECONDS)
        if self._waits_until is None:
            log.error(
                "%d session starts are left of the %d that Discord allows in a day, and %d are needed: the "
                "front connects in %s. Find out what starts the bot again and again",
                *(limit["remaining"], limit["total"], shards, _told(left)),
            )
        self._waits_until = self._clock() + left
        return left


def _told(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
