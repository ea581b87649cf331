"""The event loop of the whole bot in one process, with the engine at work beside it.

Discord's limit holds here without exception, on a busy machine too. The bot's own share of the time is judged
by the processor time of its event loop, which other processes do not change.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path

from evening import START_SECONDS, Role, alive, write_role

from bot.sandbox.client import Member
from bot.sandbox.server import Sandbox

SECONDS = 3.0
RATE = 15.0  # commands a second
COMPILING_SECONDS = 3.0  # of compilations to watch, at most: a full collection would come within two
PAUSE_SECONDS = 0.5
LOOP_SECONDS = 0.1  # of processor time per command on average, for all of the bot's work
DISCORDS_SECONDS = 3.0  # in which Discord wants an acknowledgement
FULL_COLLECTIONS = 'python_gc_collections_total{generation="2"}'
LOOP_TIME = "sdjax_loop_processor_seconds_total"


async def with_every_lane(bot: Role) -> None:
    """Wait until all compilations have ended."""
    async with asyncio.timeout(START_SECONDS):
        while "everything ready" not in bot.logs():  # noqa: ASYNC110 - another process sets no event
            await asyncio.sleep(0.1)


async def type_for(mina: Member, seconds: float) -> int:
    """Send commands at fixed times; return their number."""
    began, count = time.monotonic(), round(seconds * RATE)
    for number in range(count):
        await asyncio.sleep(max(0.0, began + number / RATE - time.monotonic()))
        await mina.imagine(prompt="a blue star", steps=20)
    return count


async def answered(sandbox: Sandbox) -> None:
    """Wait for the acknowledgement of the last commands, as long as Discord does."""
    with suppress(TimeoutError):
        async with asyncio.timeout(DISCORDS_SECONDS):
            while None in sandbox.acknowledgement_seconds:  # noqa: ASYNC110 - another process sets no event
                await asyncio.sleep(0.05)


async def test_each_command_is_acknowledged_in_time_while_the_engine_is_saturated(
    sandbox: Sandbox, tmp_path: Path, tiny_checkpoint: Path, compile_cache: Path
) -> None:
    bot = write_role(
        tmp_path, "run", sandbox, cache=compile_cache, checkpoint=str(tiny_checkpoint), forked=True
    )
    async with alive([bot]) as operator, Member(sandbox.address, "Mina") as mina:
        await with_every_lane(bot)
        for _ in range(4):
            await mina.imagine(prompt="a red circle", steps=150, variants=9)
        before = await bot.metrics(operator)
        count = await type_for(mina, SECONDS)
        after = await bot.metrics(operator)
        await answered(sandbox)
    assert after["sdjax_images_claimed"] > 0
    assert after["sdjax_images_waiting"] > 0
    assert None not in sandbox.acknowledgement_seconds
    assert (after[LOOP_TIME] - before[LOOP_TIME]) / count < LOOP_SECONDS, bot.logs()


async def test_no_full_garbage_collection_blocks_the_loop_while_programs_are_compiled(
    sandbox: Sandbox, tmp_path: Path, tiny_checkpoint: Path
) -> None:
    bot = write_role(
        tmp_path, "run", sandbox, cache=tmp_path / "cold", checkpoint=str(tiny_checkpoint), forked=True
    )
    async with alive([bot]) as operator, Member(sandbox.address, "Mina") as mina:
        before = after = await bot.metrics(operator)
        assert "everything ready" not in bot.logs()
        until = time.monotonic() + COMPILING_SECONDS
        while time.monotonic() < until:
            found = await bot.metrics(operator)
            if "everything ready" in bot.logs():
                break
            after = found
            await mina.imagine(prompt="a blue star", steps=4)
            await asyncio.sleep(PAUSE_SECONDS)
        await answered(sandbox)
    assert after["sdjax_jobs_accepted_total"] > before["sdjax_jobs_accepted_total"]
    assert after[FULL_COLLECTIONS] == before[FULL_COLLECTIONS]
    assert None not in sandbox.acknowledgement_seconds
