"""Lives of the shipped front that kill themselves by SIGKILL at a chosen call of a method.

Each life is a process of its own: a parent that has loaded the bot once forks it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
from evening import Role
from processes import ROOT

SECONDS = 120.0
PARENT = """
import functools, importlib, json, os, signal, sys
import bot.app.front
from bot.cli import main

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

for line in sys.stdin:
    wanted = json.loads(line)
    child = os.fork()
    if child == 0:
        os.dup2(os.open(wanted["err"], os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
        sys.argv = ["sdjax-bot", *wanted["arguments"]]
        if wanted["death"]:
            make_deadly(**wanted["death"])
        main()
        os._exit(0)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@dataclass(frozen=True, kw_only=True)
class Death:
    """A call of an async method, "module:Class.method", after or before which the process is killed."""

    method: str
    after: bool = True
    call: int = 1

    def described(self) -> dict[str, object]:
        """What the parent is told."""
        module, _, path = self.method.partition(":")
        return {"module": module, "path": path.split("."), "after": self.after, "call": self.call}


class DeadlyFront:
    """The front of a role's configuration, one life at a time."""

    def __init__(self, role: Role, parent: asyncio.subprocess.Process, people: aiohttp.ClientSession) -> None:
        self._role = role
        self._parent = parent
        self._people = people
        self._pid = 0
        self.err = role.config.with_name(f"{role.name}.err")

    async def live(self, death: Death | None = None) -> None:
        """Start a life, and return once it is well or dead."""
        arguments = [self._role.role, "--config", str(self._role.config)]
        wanted = {"err": str(self.err), "arguments": arguments, "death": death and death.described()}
        assert self._parent.stdin is not None
        self._parent.stdin.write(json.dumps(wanted).encode() + b"\n")
        self._pid = await self._said()
        self._end = asyncio.create_task(self._said())
        async with asyncio.timeout(SECONDS):
            while not self._end.done() and not await self._role.is_well(self._people):  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def _said(self) -> int:
        assert self._parent.stdout is not None
        return int(await self._parent.stdout.readline())

    async def dead(self) -> None:
        """Return once the life has killed itself."""
        async with asyncio.timeout(SECONDS):
            assert await self._end == -signal.SIGKILL, self.err.read_text()

    async def kill(self) -> None:
        """End the life from outside, if there is one."""
        if self._pid and not self._end.done():
            os.kill(self._pid, signal.SIGKILL)
            await self._end


@asynccontextmanager
async def deadly_front(role: Role) -> AsyncIterator[DeadlyFront]:
    """The lives of a front, and the process that forks them."""
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PARENT),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    async with aiohttp.ClientSession() as people:
        front = DeadlyFront(role, parent, people)
        try:
            yield front
        finally:
            await front.kill()
            assert parent.stdin is not None
            parent.stdin.close()
            await parent.wait()
