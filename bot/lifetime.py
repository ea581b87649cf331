"""How a process of several loops starts, stops on a signal, and falls with its first broken part."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NoReturn, TypeVar

from bot.threads import in_thread

T = TypeVar("T")
UNINTERRUPTIBLE = "uninterruptible"
SWITCH_SECONDS = 0.0005
"""How long a thread that computes in Python keeps the interpreter from the loop.

Answering one command, the loop asks for the interpreter dozens of times, behind a thread that traces programs
or prepares runs: with Python's own 5 ms that adds up to seconds for people who wait for an acknowledgement.
"""


def steady_time(
    wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic
) -> Callable[[], float]:
    """A clock of seconds since the epoch that nobody sets: it was right when this was called, and goes on."""
    offset = wall() - steady()
    return lambda: steady() + offset


class Stop:
    """The wish to stop: the first time after finishing what is being painted, the second time now."""

    def __init__(self) -> None:
        self.draining = asyncio.Event()
        self.now = asyncio.Event()

    def ask(self) -> None:
        """Ask to stop; asking again asks to stop now."""
        (self.now if self.draining.is_set() else self.draining).set()

    def listen(self) -> None:
        """Ask at every SIGINT and SIGTERM."""
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self.ask)

    async def let_finish(self, work: Awaitable[object]) -> None:
        """Wait until `work` has ended, however it did; cancel it once asked to stop now."""
        working, now = asyncio.ensure_future(work), asyncio.create_task(self.now.wait())
        try:
            await asyncio.wait({working, now}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            working.cancel()
            now.cancel()
            await asyncio.gather(working, now, return_exceptions=True)


class Stopped(Exception):
    """What was waited for did not come, because it was asked to stop."""


class Running:
    """Tasks that run side by side until one fails or it is asked to stop."""

    def __init__(self, stop: Stop) -> None:
        self._stopping = asyncio.create_task(stop.draining.wait(), name="stop")
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run `work` beside the others."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        return task

    async def wait_for(self, wanted: Awaitable[T]) -> T:
        """What `wanted` gives; raises a task's failure, or Stopped, when that comes first."""
        waiting = asyncio.ensure_future(wanted)
        try:
            await asyncio.wait({waiting, self._stopping, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
            for task in self._tasks:
                if task.done():
                    task.result()
            if self._stopping.done() or not waiting.done():
                raise Stopped
            return waiting.result()
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

    async def for_ever(self) -> NoReturn:
        """Go on until a task fails, which is raised, or it is asked to stop: raises Stopped."""
        await self.wait_for(asyncio.Event().wait())
        raise Stopped

    async def close(self) -> None:
        """Cancel every task and wait for its end."""
        tasks = [self._stopping, *self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def in_own_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """Run `work`, which nothing can interrupt, in a thread that the end of the process need not wait for."""
    return in_thread(work, UNINTERRUPTIBLE)


def run_to_the_end(work: Callable[[Stop], Coroutine[Any, Any, None]]) -> None:
    """Run `work` as the process's main task, with what SIGINT and SIGTERM ask.

    Where a thread still compiles at its end, the process leaves at once: the interpreter's own way out
    would tear down the libraries under that thread.
    """

    async def main() -> None:
        stop = Stop()
        stop.listen()
        await work(stop)

    sys.setswitchinterval(SWITCH_SECONDS)
    asyncio.run(main())
    if any(thread.name == UNINTERRUPTIBLE for thread in threading.enumerate()):
        leave(0)


def leave(status: int) -> NoReturn:
    """End the process at once, without waiting for a thread that nothing interrupts."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
