"""What members and moderators of one server write makes nobody else wait for an acknowledgement."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import median

import pytest
from evening import alive, write_role
from hostile_words import HOSTILE, Send

from bot.sandbox.client import InteractionFailed, Member
from bot.sandbox.server import Sandbox

ASKED = 12
AT_ONCE = 4  # requests of the attacker on their way
TIMES = 10.0
"""A blocked event loop makes it tens or hundreds of times; a busy machine makes it two or three times."""
LEAST_SECONDS = 0.05  # of the control, so that noise on a quiet machine does not count


async def acknowledged(sandbox: Sandbox, member: Member) -> float:
    """Ask in a direct message, and return the seconds until the acknowledgement."""
    asked = sandbox._core.interactions.get(int(await member.imagine(prompt="a tree")))
    assert asked is not None
    async with asyncio.timeout(30.0):
        while asked.acknowledged_at is None:  # noqa: ASYNC110 - another process sets no event
            await asyncio.sleep(0.005)
    return asked.acknowledged_at - asked.created_at


@contextlib.asynccontextmanager
async def attacking(send: Send) -> AsyncIterator[list[int]]:
    """Let one member send costly requests until the context ends; yields the number sent so far."""
    sent: list[int] = []

    async def go_on() -> None:
        while True:
            with contextlib.suppress(InteractionFailed, TimeoutError):
                await send()
            sent.append(1)
            await asyncio.sleep(0.05)

    tasks = [asyncio.create_task(go_on()) for _ in range(AT_ONCE)]
    try:
        yield sent
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("kind", HOSTILE)
async def test_others_are_acknowledged_beside_costly_words_nearly_as_soon_as_without(
    kind: str, sandbox: Sandbox, tmp_path: Path, compile_cache: Path
) -> None:
    front = write_role(tmp_path, "front", sandbox, cache=compile_cache, forked=True)
    async with (
        alive([front]),
        Member(sandbox.address, "Mina") as mina,
        Member(sandbox.address, "Ravi") as ravi,
        Member(sandbox.address, "Omar", channel="general") as omar,
    ):
        control = [await acknowledged(sandbox, omar) for _ in range(ASKED)]
        send = await HOSTILE[kind](sandbox, mina, ravi)
        await send()
        async with attacking(send) as sent:
            beside = [await acknowledged(sandbox, omar) for _ in range(ASKED)]
        assert sent
    assert median(beside) < TIMES * max(LEAST_SECONDS, median(control)), front.logs()[-2000:]
