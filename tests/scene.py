"""A front and a worker as shipped processes on a sandbox, and faults around them."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from evening import Role, alive, interaction_of, is_final, write_role
from forked import CLOCK
from processes import SLOW_DEVICES, START, Bot
from results import text_of

from bot.sandbox.client import Member
from bot.sandbox.server import Sandbox

Message = dict[str, Any]
DEADLINE = 120.0
PROMPT = "a red circle on a white background"

# Two changes before the shipped command begins: SIGUSR1 and SIGUSR2 set the wall clock two hours forward
# and back, and waits after a failure of Discord are a tenth as long.
PROGRAM = (
    CLOCK
    + """
import asyncio, signal, sys, time
def move(by):
    return lambda *_: setattr(time, "moved_by", time.moved_by + by)
signal.signal(signal.SIGUSR1, move(7200.0))
signal.signal(signal.SIGUSR2, move(-7200.0))
sleep = asyncio.sleep
async def quick(delay, result=None):
    patient = isinstance(delay, int) and sys._getframe(1).f_globals["__name__"].startswith("discord.")
    return await sleep(delay / 10 if patient else delay, result)
asyncio.sleep = quick
import bot.delivery.outbox as outbox
backoff = outbox.backoff
outbox.backoff = lambda attempts, jitter: backoff(attempts, jitter) / 10
"""
)


@dataclass(kw_only=True)
class FaultScene:
    """The sandbox, the two processes, Mina who asks, and an operator who looks."""

    sandbox: Sandbox
    front: Role
    worker: Role
    mina: Member
    operator: aiohttp.ClientSession

    @property
    def database(self) -> Path:
        """The file of the queue, where that is SQLite."""
        return self.front.config.with_name("queue.sqlite3")

    async def ask(self, **options: Any) -> str:
        """Type /imagine; the interaction's id."""
        return await self.mina.imagine(prompt=PROMPT, **options)

    async def queued(self, interaction: str) -> Message:
        """The message of a request, once it shows a job."""
        return await self.mina.message_of(interaction, lambda message: PROMPT in text_of(message))

    async def delivered(self, *interactions: str) -> None:
        """Wait until each has its pictures, in one message."""
        for interaction in interactions:
            await self.mina.message_of(interaction, _has_picture, timeout=DEADLINE)
        shown = [interaction_of(message) for message in await self.mina.messages()]
        assert [shown.count(interaction) for interaction in interactions] == [1] * len(interactions)

    async def counted(self, role: Role, name: str, least: float) -> None:
        """Wait until a metric of a role has come to `least`."""
        await until_true(lambda: self._at_least(role, name, least), name)

    async def _at_least(self, role: Role, name: str, least: float) -> bool:
        return (await role.metrics(self.operator)).get(name, 0.0) >= least

    async def logged(self, role: Role, words: str) -> None:
        """Wait until a role's log says `words`."""

        async def said() -> bool:
            return words in role.logs()

        await until_true(said, f"{words!r} in the log of the {role.name}")

    async def metric(self, role: Role, name: str) -> float:
        """A metric of a role now; 0 where it was never counted."""
        return (await role.metrics(self.operator)).get(name, 0.0)


async def until_true(what: Callable[[], Any], name: str) -> None:
    """Wait until `what()` is true; the error after the time-out has `name`."""
    try:
        async with asyncio.timeout(DEADLINE):
            while not await what():  # noqa: ASYNC110 - another process sets no event
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"{name} did not come about") from None


def _has_picture(message: Message) -> bool:
    return is_final(message) and bool(message["attachments"])


@contextlib.asynccontextmanager
async def on_stage(
    sandbox: Sandbox, folder: Path, *, cache: Path, checkpoint: Path, database: str = ""
) -> AsyncIterator[FaultScene]:
    """Start a front, and a worker on slow devices, and end both with the block."""
    common: dict[str, Any] = {
        "cache": cache,
        "checkpoint": str(checkpoint),
        "database": database,
        "forked": True,
    }
    front = write_role(folder, "front", sandbox, program=("-c", PROGRAM + START), **common)
    slow = ("-c", PROGRAM + SLOW_DEVICES + START)
    worker = write_role(folder, "worker", sandbox, program=slow, **common)
    async with alive([front, worker]) as operator, Member(sandbox.address, "Mina") as mina:
        yield FaultScene(sandbox=sandbox, front=front, worker=worker, mina=mina, operator=operator)


def send(role: Role, number: signal.Signals) -> None:
    """Send a role's process a signal."""
    bot = running(role)
    bot.process.send_signal(number)


def running(role: Role) -> Bot:
    """A role's process."""
    assert role.process is not None
    return role.process


@contextlib.contextmanager
def full_disk(*roles: Role) -> Iterator[None]:
    """Limit all files of these processes to 8 KiB: their writes fail as on a full disk."""
    pids = [running(role).process.pid for role in roles]
    before = [resource.prlimit(pid, resource.RLIMIT_FSIZE) for pid in pids]
    try:
        for pid, (_, hard) in zip(pids, before, strict=True):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (8192, hard))
        yield
    finally:
        for pid, limits in zip(pids, before, strict=True):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)
