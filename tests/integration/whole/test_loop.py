"""The event loop of the whole bot in one process, with the engine at work beside it."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from evening import START_SECONDS, Role, alive, write_role
from evening_audit import real_violations

from bot.sandbox.client import Member
from bot.sandbox.server import Sandbox

SECONDS = 5.0
RATE = 15.0  # commands a second
WINDOWS = 4  # of which the first counts in which the machine itself kept nobody waiting
STALLS = "sdjax_loop_stalls_total"

# Another process that sleeps and wakes as the loop does: as late as it is, so late the machine makes anybody.
CONTROL = """
import sys, time
longest = 0.0
while True:
    began = time.monotonic()
    time.sleep(0.05)
    longest = max(longest, time.monotonic() - began - 0.05)
    print(longest, flush=True)
"""


@asynccontextmanager
async def control() -> AsyncIterator[list[float]]:
    """How late the machine made the control so far; the last number is the latest."""
    late = [0.0]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CONTROL, stdout=asyncio.subprocess.PIPE
    )

    async def read() -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            late.append(float(line))

    reading = asyncio.create_task(read())
    try:
        yield late
    finally:
        process.kill()
        await asyncio.gather(process.wait(), reading)


async def window(bot: Role, operator: aiohttp.ClientSession, mina: Member) -> tuple[float, float]:
    """Commands for some seconds; how often the loop stood still meanwhile, and how late the control was."""
    before = (await bot.metrics(operator))[STALLS]
    async with control() as late:
        began = time.monotonic()
        for number in range(round(SECONDS * RATE)):
            await asyncio.sleep(max(0.0, began + number / RATE - time.monotonic()))
            await mina.imagine(prompt="a blue star", steps=20)
    return (await bot.metrics(operator))[STALLS] - before, late[-1]


async def with_every_lane(bot: Role) -> None:
    """Return once nothing is compiled any more, which would need the cores that the commands are to have."""
    async with asyncio.timeout(START_SECONDS):
        while "everything ready" not in bot.logs():  # noqa: ASYNC110 - another process sets no event
            await asyncio.sleep(0.1)


@pytest.mark.slow
async def test_the_loop_never_stands_still_while_the_engine_is_saturated(
    lenient: Sandbox, tmp_path: Path, compile_cache: Path
) -> None:
    bot = write_role(tmp_path, "run", lenient, cache=compile_cache)
    async with alive([bot]) as operator, Member(lenient.address, "Mina") as mina:
        await with_every_lane(bot)
        for _ in range(4):
            await mina.imagine(prompt="a red circle", steps=100, variants=9)
        latest = 0.0
        for _ in range(WINDOWS):
            stalls, late = await window(bot, operator, mina)
            latest = max(latest, late)
            if stalls == 0 or late < 0.1:
                break
        metrics = await bot.metrics(operator)
    assert metrics["sdjax_images_held"] > 0
    assert metrics["sdjax_images_waiting"] > 0
    assert stalls == 0 or late >= 0.1, bot.logs()
    # Where the machine kept even the control waiting, an acknowledgement may have come too late by that.
    assert (real_violations(lenient.violations) if latest >= 0.1 else lenient.violations) == []
