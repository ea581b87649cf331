"""Running a process: its background tasks, its shutdown on a signal, and its end when a task fails."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar

from bot.process.retries import keep_running
from bot.process.threads import uninterruptible_thread_runs

log = logging.getLogger(__name__)

T = TypeVar("T")
STDIN = 0
STOPPING = "a stop is asked for: what is under way is finished or given back; a second signal stops at once"
AT_ONCE = "a second stop is asked for: this ends at once"
SWITCH_SECONDS = 0.0005
"""How long a thread that computes in Python may keep the interpreter lock while the event loop waits for it.

The loop takes the lock dozens of times to answer one command. Other threads trace programs or prepare runs
meanwhile. With Python's default of 5 ms the waits add up to seconds before an acknowledgement.
"""

MOST_FILES = 65_536
"""The soft limit is 1,024 on most systems, for programs that call `select`. Connections to Discord, to
PostgreSQL and to the pages share it.
"""


class Shutdown:
    """The request to shut down. The first request drains the process, the second ends it at once.

    `requested` is set by the first request, `now` by the second. `reload` is set by a request to read the
    configuration again. `tell` gets a sentence at each signal.
    """

    def __init__(self) -> None:
        self.tell: Callable[[str], None] = log.info
        self.requested = asyncio.Event()
        self.now = asyncio.Event()
        self.reload = asyncio.Event()

    def request(self) -> None:
        """Request the shutdown, or after an earlier request the end at once."""
        (self.now if self.requested.is_set() else self.requested).set()

    def listen(self) -> None:
        """Call `request` at every SIGINT and SIGTERM, and set `reload` at SIGHUP.

        SIGHUP calls `request` if the process had a terminal and the terminal has closed.
        """
        loop, had_terminal = asyncio.get_running_loop(), os.isatty(STDIN)

        def hang_up() -> None:
            if had_terminal and not os.isatty(STDIN):
                self.request()
            else:
                self.reload.set()

        def stop() -> None:
            self.tell(AT_ONCE if self.requested.is_set() else STOPPING)
            self.request()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)
        loop.add_signal_handler(signal.SIGHUP, hang_up)

    async def drain(self, work: Awaitable[object]) -> None:
        """Wait until `work` has ended, with a result or an error; cancel it at the second request."""
        working, now = asyncio.ensure_future(work), asyncio.create_task(self.now.wait())
        try:
            await asyncio.wait({working, now}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            working.cancel()
            now.cancel()
            await asyncio.gather(working, now, return_exceptions=True)


class ShutdownRequested(Exception):
    """A wait ended because a shutdown was requested, or because a background task ended."""


class BackgroundTasks:
    """Tasks that run beside the body of `async with`; leaving the body cancels them and waits for their end.

    `wait_for` and `wait_for_shutdown` raise a task's first failure in the body; later ones are logged.
    """

    # asyncio.TaskGroup cancels the siblings of a failed task at once. Here they run until the body has
    # drained: the gateway and the outbox deliver what the worker still finishes.

    def __init__(self, shutdown: Shutdown) -> None:
        self._shutdown = asyncio.create_task(shutdown.requested.wait(), name="shutdown")
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run `work` in a task of this name."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        return task

    def keep(
        self,
        work: Callable[[], Awaitable[None]],
        name: str,
        *,
        fatal: tuple[type[Exception], ...] = (),
    ) -> None:
        """Run the endless `work` in a task of this name; only an error of `fatal` ends it."""
        self.start(keep_running(work, name, fatal=fatal), name)

    async def wait_for(self, wanted: Awaitable[T]) -> T:
        """Return the result of `wanted`; raises a task's failure, or ShutdownRequested, that comes first."""
        waiting = asyncio.ensure_future(wanted)
        try:
            await asyncio.wait({waiting, self._shutdown, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
            for task in self._tasks:
                if task.done():
                    task.result()
            if self._shutdown.done() or not waiting.done():
                raise ShutdownRequested
            return waiting.result()
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

    async def wait_for_shutdown(self) -> NoReturn:
        """Wait until a task fails or a shutdown is requested; raises the failure or ShutdownRequested."""
        await self.wait_for(asyncio.Event().wait())
        raise ShutdownRequested

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._shutdown.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(self._shutdown, *self._tasks, return_exceptions=True)
        for task in self._tasks:
            failure = None if task.cancelled() else task.exception()
            if failure is not None and failure is not error:
                log.error("the task “%s” failed beside the shutdown", task.get_name(), exc_info=failure)


def run_process(work: Callable[[Shutdown], Coroutine[Any, Any, None]]) -> None:
    """Run `work` as the process's main task; `Shutdown.listen` says what signals do."""

    async def main() -> None:
        shutdown = Shutdown()
        shutdown.listen()
        await work(shutdown)

    sys.setswitchinterval(SWITCH_SECONDS)
    allow_files()
    asyncio.run(main())
    if uninterruptible_thread_runs():
        # Python's own exit would unload libraries that the thread is still calling.
        exit_now(0)


def allow_files() -> None:
    """Raise this process's soft limit on open files to its hard limit, and to `MOST_FILES` at most."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if resource.RLIM_INFINITY != soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def exit_now(status: int) -> NoReturn:
    """End the process without waiting for any thread."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
