"""Metrics of interactions, of the gateway and of requests to Discord."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import discord

from bot.front.services import Interaction
from bot.metrics import WELL, FrontMetrics

CALLBACK = re.compile(r"/interactions/(\d+)/[^/]+/callback$")
MOST_OPEN = 10_000  # interactions without a first answer


class Counting:
    """Counts the events of a client. `clock` is monotonic, `wall` is in seconds since the epoch."""

    def __init__(
        self,
        metrics: FrontMetrics,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._metrics = metrics
        self._clock = clock
        self._wall = wall
        self._arrived: dict[int, float] = {}
        self._unclear: dict[int, None] = {}
        self._shards: dict[int, bool] = {}  # whether each shard is connected

    def arrived(self, interaction: Interaction) -> None:
        """Count an interaction that has arrived."""
        self._arrived[interaction.id] = self._clock()
        _shorten(self._arrived)
        if interaction.type is not discord.InteractionType.autocomplete:
            self._metrics.commands.labels(name_of(interaction)).inc()

    def gateway(self, event: str, shard: int) -> None:
        """Count a lost or restored connection to the gateway."""
        self._shards[shard] = event != "disconnected"
        self._metrics.gateway_events.labels(event).inc()

    def health(self) -> str:
        """Return "well", or why the gateway is not connected."""
        lost = [str(shard) for shard, connected in sorted(self._shards.items()) if not connected]
        if lost:
            return f"shard {', '.join(lost)} is not connected to Discord's gateway"
        return WELL if self._shards else "not connected to Discord's gateway"

    def trace(self) -> aiohttp.TraceConfig:
        """Return what counts each attempt of a client's requests by its outcome."""
        trace = aiohttp.TraceConfig()

        async def answered(
            _session: aiohttp.ClientSession, _context: SimpleNamespace, end: aiohttp.TraceRequestEndParams
        ) -> None:
            self.answered(end.url.path, end.response.status)

        async def failed(
            _session: aiohttp.ClientSession,
            _context: SimpleNamespace,
            end: aiohttp.TraceRequestExceptionParams,
        ) -> None:
            self._lost(end.url.path)
            if not isinstance(end.exception, asyncio.CancelledError):
                self._metrics.discord_requests.labels("unreachable").inc()

        trace.on_request_end.append(answered)
        trace.on_request_exception.append(failed)
        return trace

    def answered(self, path: str, status: int) -> None:
        """Count a request that Discord has answered, perhaps the first answer to an interaction."""
        self._metrics.discord_requests.labels("429" if status == 429 else f"{status // 100}xx").inc()
        if status >= 500:
            self._lost(path)
        elif callback := CALLBACK.search(path):
            number = int(callback[1])
            arrived = self._arrived.pop(number, None)
            if arrived is not None and status < 300:
                self._metrics.acknowledgement.observe(self._clock() - arrived)
                asked = discord.utils.snowflake_time(number).timestamp()
                self._metrics.acknowledgement_since_asked.observe(max(0.0, self._wall() - asked))

    def was_unclear(self, interaction_id: int) -> bool:
        """Return whether an attempt at a first answer to this interaction had an unknown outcome."""
        return interaction_id in self._unclear

    def _lost(self, path: str) -> None:
        if callback := CALLBACK.search(path):
            self._unclear[int(callback[1])] = None
            _shorten(self._unclear)


def _shorten(by_interaction: dict[int, Any]) -> None:
    while len(by_interaction) > MOST_OPEN:
        del by_interaction[next(iter(by_interaction))]


def name_of(interaction: Interaction) -> str:
    """Return the metric's label of a command or a button: a button by the first word of its id."""
    data: Mapping[str, Any] = cast("Mapping[str, Any]", interaction.data or {})
    return str(data.get("name") or str(data.get("custom_id", "")).partition(":")[0])
