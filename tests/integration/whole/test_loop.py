"""The event loop of the whole bot in one process, with the engine at work beside it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from evening import START_SECONDS, Role, alive, write_role
from evening_audit import real_violations

from bot.sandbox.client import Member
from bot.sandbox.server import Sandbox
from bot.stalls import run_delay

SECONDS = 5.0
RATE = 15.0  # commands a second
STALLS = "sdjax_loop_stalls_total"
STARVED_STALLS = "sdjax_loop_starved_stalls_total"
STARVED = "sdjax_loop_starved_seconds_total"
BUSY_SECONDS = 1.0  # without a processor, for the bot's loop and the sandbox's together: Discord waits 3 s


async def with_every_lane(bot: Role) -> None:
    """Return once nothing is compiled any more, which would need the cores that the commands are to have."""
    async with asyncio.timeout(START_SECONDS):
        while "everything ready" not in bot.logs():  # noqa: ASYNC110 - another process sets no event
            await asyncio.sleep(0.1)


async def type_for_some_seconds(mina: Member) -> None:
    """Commands at fixed moments."""
    began = time.monotonic()
    for number in range(round(SECONDS * RATE)):
        await asyncio.sleep(max(0.0, began + number / RATE - time.monotonic()))
        await mina.imagine(prompt="a blue star", steps=20)


@pytest.mark.slow
async def test_the_loop_never_stands_still_while_the_engine_is_saturated(
    lenient: Sandbox, tmp_path: Path, compile_cache: Path
) -> None:
    bot = write_role(tmp_path, "run", lenient, cache=compile_cache)
    async with alive([bot]) as operator, Member(lenient.address, "Mina") as mina:
        await with_every_lane(bot)
        for _ in range(4):
            await mina.imagine(prompt="a red circle", steps=100, variants=9)
        before, delay = await bot.metrics(operator), run_delay()
        await type_for_some_seconds(mina)
        after, delay = await bot.metrics(operator), run_delay() - delay
    assert after["sdjax_images_held"] > 0
    assert after["sdjax_images_waiting"] > 0
    stalls, starved_stalls, starved = (
        after[name] - before[name] for name in (STALLS, STARVED_STALLS, STARVED)
    )
    assert real_violations(lenient.violations) == []
    if starved + delay < BUSY_SECONDS:  # else the kernel says that the machine ran neither loop in time
        assert stalls == starved_stalls, bot.logs()
        assert lenient.violations == []
