"""Runs of the shipped front that kill themselves by SIGKILL at a chosen call of a method.

Each run is a process of its own, here called a life of the front.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
from evening import Role
from processes import START, Bot, start

SECONDS = 120.0
DEADLY = """
import functools, importlib, os, signal

def make_deadly(module, path, after, call):
    owner = functools.reduce(getattr, path[:-1], importlib.import_module(module))
    real, calls = getattr(owner, path[-1]), 0
    async def deadly(*args, **named):
        nonlocal calls
        calls += 1
        if calls < call:
            return await real(*args, **named)
        if after:
            await real(*args, **named)
        os.kill(os.getpid(), signal.SIGKILL)
    setattr(owner, path[-1], deadly)

make_deadly({module!r}, {path!r}, {after!r}, {call!r})
"""


@dataclass(frozen=True, kw_only=True)
class Death:
    """A call of an async method, "module:Class.method", after or before which the process is killed."""

    method: str
    after: bool = True
    call: int = 1

    def program(self) -> str:
        """The source of a program that makes the call deadly."""
        module, _, path = self.method.partition(":")
        return DEADLY.format(module=module, path=path.split("."), after=self.after, call=self.call)


class DeadlyFront:
    """The front of a role's configuration, one life at a time."""

    def __init__(self, role: Role, people: aiohttp.ClientSession) -> None:
        self._role = role
        self._people = people
        self._lives: list[Bot] = []

    async def live(self, death: Death | None = None) -> None:
        """Start a life, and return once it is well or dead."""
        life = await start(
            *(self._role.role, "--config", str(self._role.config)),
            err=self._role.config.with_name(f"{self._role.name}-{len(self._lives)}.err"),
            program=("-c", (death.program() if death else "") + START),
            forked=True,
        )
        self._lives.append(life)
        process = life.process
        async with asyncio.timeout(SECONDS):
            while process.returncode is None and not await self._role.is_well(self._people):  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def dead(self) -> None:
        """Return once the life has killed itself."""
        async with asyncio.timeout(SECONDS):
            assert await self._lives[-1].process.wait() == -signal.SIGKILL, self.logs()

    async def kill(self) -> None:
        """Kill the present life from outside, if it still runs."""
        if self._lives and (process := self._lives[-1].process).returncode is None:
            process.kill()
            await process.wait()

    def logs(self) -> str:
        """Return the logs of all lives."""
        return "".join(life.err.read_text() for life in self._lives)


@asynccontextmanager
async def deadly_front(role: Role) -> AsyncIterator[DeadlyFront]:
    """The lives of a front."""
    async with aiohttp.ClientSession() as people:
        front = DeadlyFront(role, people)
        try:
            yield front
        finally:
            await front.kill()
