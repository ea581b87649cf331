"""What members and moderators of one server write makes nobody else wait for an acknowledgement.

Costly words are compared with plain words of the same length, sent in the same way: requests as such load the
machine too, and so do the tests in other processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import pytest
from evening import alive, write_role
from hostile_words import HOSTILE, Attack

from bot.sandbox.client import InteractionFailed, Member
from bot.sandbox.interactions import Interaction
from bot.sandbox.server import Sandbox
from bot.sandbox.state import Flag

ASKED = 20
PAUSE_SECONDS = 0.1
AT_ONCE = 4  # requests of the attacker that are not answered yet
EACH_SECONDS = 0.5  # from one request of the attacker to the next one in its place
TIMES = 10.0
"""A blocked event loop makes it tens or hundreds of times; a busy machine makes it two or three times."""
LEAST_SECONDS = 0.05  # beside plain words, so that noise on a quiet machine does not count
HELD = 0.1
"""Judging on the event loop or with the interpreter lock holds the loop for 15 % of the time and more.

Judging in a thread that lets go of the lock holds it for less than 1 %. With three busy processes beside it,
that was up to 4 %: a thread that waits for a processor may have the lock.
"""
LATE, STARVED = "sdjax_loop_lag_seconds_sum", "sdjax_loop_starved_seconds_total"


async def acknowledged(sandbox: Sandbox, interaction_id: str) -> Interaction:
    """Return the interaction once it is acknowledged."""
    asked = sandbox._core.interactions.get(int(interaction_id))
    assert asked is not None
    async with asyncio.timeout(30.0):
        while asked.acknowledged_at is None:  # noqa: ASYNC110 - another process sets no event
            await asyncio.sleep(0.005)
    return asked


async def answered(sandbox: Sandbox, interaction_id: str) -> None:
    """Wait until the answer says more than that the bot is thinking."""
    asked = await acknowledged(sandbox, interaction_id)
    async with asyncio.timeout(30.0):
        while _is_thinking(asked):  # noqa: ASYNC110 - another process sets no event
            await asyncio.sleep(0.02)


def _is_thinking(asked: Interaction) -> bool:
    """Return whether the member reads no more than that; a refusal may be a follow-up."""
    return bool(asked.original and asked.original.flags & Flag.LOADING) and not asked.follow_ups


@dataclass(frozen=True, kw_only=True)
class Beside:
    """How another person fares beside an attack: the median wait for an acknowledgement, in seconds.

    `held` is the part of the time in which the front's event loop could not run although it had a processor.
    """

    wait: float
    held: float


async def asked_beside(
    attack: Attack,
    attacker: Member,
    other: Member,
    sandbox: Sandbox,
    metrics: Callable[[], Awaitable[dict[str, float]]],
) -> Beside:
    """Let another person ask in direct messages beside an attack."""
    waits = []
    async with attacking(attack, sandbox, attacker):
        before, began = await metrics(), time.monotonic()
        for _ in range(ASKED):
            asked = await acknowledged(sandbox, await other.imagine(prompt="a tree"))
            assert asked.acknowledged_at is not None
            waits.append(asked.acknowledged_at - asked.created_at)
            await asyncio.sleep(PAUSE_SECONDS)
        after, seconds = await metrics(), time.monotonic() - began
    late, starved = (after[name] - before[name] for name in (LATE, STARVED))
    return Beside(wait=median(waits), held=(late - starved) / seconds)


@contextlib.asynccontextmanager
async def attacking(attack: Attack, sandbox: Sandbox, member: Member) -> AsyncIterator[None]:
    """Let one member send requests until the context ends."""

    async def go_on() -> None:
        while True:
            due = time.monotonic() + EACH_SECONDS
            with contextlib.suppress(InteractionFailed, TimeoutError):
                await answered(sandbox, await attack.send(member))
            await asyncio.sleep(due - time.monotonic())

    tasks = [asyncio.create_task(go_on()) for _ in range(AT_ONCE)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("kind", HOSTILE)
async def test_others_are_acknowledged_beside_costly_words_nearly_as_soon_as_beside_plain_ones(
    kind: str, sandbox: Sandbox, tmp_path: Path, compile_cache: Path
) -> None:
    front = write_role(tmp_path, "front", sandbox, cache=compile_cache, forked=True)
    attack = HOSTILE[kind]
    async with (
        alive([front]) as people,
        Member(sandbox.address, "Mina") as mina,
        Member(sandbox.address, "Ravi") as ravi,
        Member(sandbox.address, "Omar", channel="general") as omar,
    ):
        ask = partial(
            asked_beside, attacker=ravi, other=omar, sandbox=sandbox, metrics=partial(front.metrics, people)
        )
        plain = await ask(attack.plainly())
        await attack.prepare(sandbox, mina)
        at_first = await ask(attack)  # AutoMod's rules are read meanwhile
        await answered(sandbox, await attack.send(ravi))
        then = await ask(attack)
    for costly in (at_first, then):
        assert costly.wait < TIMES * max(LEAST_SECONDS, plain.wait), front.logs()[-2000:]
        assert costly.held < HELD, front.logs()[-2000:]
