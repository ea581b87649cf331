"""When shards may identify at the gateway."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import discord
import pytest

from bot.front.gateway.connections import SessionStarts
from bot.telemetry.metrics import WELL


class Discord:
    """Answers like GET /gateway/bot."""

    def __init__(self, *, remaining: int = 1000, at_once: int = 1, reset_after: int = 3_600_000) -> None:
        self.remaining, self.at_once, self.reset_after = remaining, at_once, reset_after

    async def get_bot_gateway(self) -> Any:
        limit = {
            "total": 1000,
            "remaining": self.remaining,
            "reset_after": self.reset_after,
            "max_concurrency": self.at_once,
        }
        return 1, "wss://gateway.discord.gg", limit


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of each sleep, which take no time."""
    found: list[float] = []

    async def sleep(seconds: float) -> None:
        found.append(round(seconds, 3))
        await asyncio.sleep(0)

    monkeypatch.setattr("bot.front.gateway.connections.asyncio", SimpleNamespace(sleep=sleep))
    return found


def starts(answers: Discord) -> SessionStarts:
    return SessionStarts(cast("Any", answers), clock=lambda: 100.0)


@pytest.mark.parametrize(
    ("at_once", "waits"), [(1, [0.0, 5.0, 10.0, 15.0]), (2, [0.0, 0.0, 5.0, 5.0]), (16, [0.0] * 4)]
)
async def test_as_many_shards_identify_within_five_seconds_as_discord_allows(
    slept: list[float], at_once: int, waits: list[float]
) -> None:
    turns = starts(Discord(at_once=at_once))
    for shard in range(4):
        await turns.take(shard)
    assert slept == waits


async def test_a_shard_without_a_start_is_retried_later(slept: list[float]) -> None:
    turns = starts(Discord(remaining=0))
    with pytest.raises(discord.GatewayNotFound):
        await turns.take(0)
    assert slept == [30.0]
    assert turns.health() == "no session start is left today: the front connects in 60 min"


async def test_all_shards_of_a_front_wait_until_there_are_starts_for_each(slept: list[float]) -> None:
    answers = Discord(remaining=3, reset_after=90_000)
    turns = starts(answers)
    waiting = asyncio.create_task(turns.wait(4))
    await asyncio.sleep(0)
    assert slept[0] == 90.0
    assert turns.health() == "no session start is left today: the front connects in 90 s"
    answers.remaining = 4
    await waiting
    assert turns.health() == WELL
